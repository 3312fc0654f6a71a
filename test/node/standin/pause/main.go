// Command pause runs until a signal ends it, so that the namespaces of a pod exist. As the first
// process of a pod it reaps orphaned processes.
package main

import "os"

func main() {
	wait(make(chan os.Signal, 8))
}
