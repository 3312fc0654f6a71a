package operator

import (
	"flag"
	"sync"
)

var lock sync.Mutex

var names, sizes = []string{}, map[string]int{}

var verbose = flag.Bool("verbose", false, "")

func init() { lock.Lock() }
