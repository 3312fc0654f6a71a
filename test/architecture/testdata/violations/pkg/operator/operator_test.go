package operator_test

import _ "example.org/module/pkg/drivers/nfs"
