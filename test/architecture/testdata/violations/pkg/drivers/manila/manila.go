// Package manila imports the core and another driver.
package manila

import (
	_ "example.org/module/pkg/drivers/nfs"
	_ "example.org/module/pkg/operator"
)
