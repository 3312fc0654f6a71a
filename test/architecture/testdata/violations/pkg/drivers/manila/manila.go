// Package manila knows the core and another driver.
package manila

import (
	_ "example.org/house/pkg/drivers/nfs"
	_ "example.org/house/pkg/operator"
)
