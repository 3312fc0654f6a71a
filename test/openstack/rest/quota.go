package rest

// Exceeds returns whether a request that adds something to what is used exceeds a limit. Zero is no
// limit.
func Exceeds(limit, used, added int) bool { return limit > 0 && added > 0 && used+added > limit }

// Limit returns a limit as the services show it: -1 is none.
func Limit(limit int) int {
	if limit == 0 {
		return -1
	}
	return limit
}
