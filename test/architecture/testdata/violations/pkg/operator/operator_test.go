package operator_test

import _ "example.org/house/pkg/drivers/nfs"
