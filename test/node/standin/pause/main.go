// Command pause keeps the namespaces of a pod alive until a signal ends it. As the first process of
// a pod it collects the processes that others leave.
package main

import "os"

func main() {
	wait(make(chan os.Signal, 8))
}
