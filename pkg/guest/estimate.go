package guest

// The estimated memory of JSON beyond its text, in bytes. The server chooses the types that
// client-go decodes. null needs as much memory as an empty object where an object can be.
const (
	// valueCost is for a field of an object.
	valueCost = 64
	// elementCost is for an element of a list within an object. The largest has 512 bytes:
	// JSONSchemaProps of a CustomResourceDefinition. A slice that grows reserves a quarter more.
	elementCost = 640
	// objectCost is for an object. The largest that an informer reads is a DaemonSet with 1184 bytes:
	// 1480 in a slice that grows, and 1280 in the copy of client-go. The largest that the server can
	// send instead is a CronJob with 1910, without a copy.
	objectCost = 4 << 10
)

// estimate is the memory that a JSON text needs.
type estimate struct {
	// lists has an entry for each open bracket, which is true for a list.
	lists []bool
	// text is true within a string of the JSON text, escaped after a backslash.
	text, escaped bool
}

// add returns the memory of the next part of the text.
func (e *estimate) add(text []byte) (sum int) {
	for _, c := range text {
		sum += 1 + e.begins(c)
	}
	return sum
}

// begins returns the memory of the value that begins with or after the character, beyond its text.
// It ignores brackets and commas within strings.
func (e *estimate) begins(c byte) int {
	switch {
	case e.escaped:
		e.escaped = false
	case c == '"':
		e.text = !e.text
	case e.text:
		e.escaped = c == '\\'
	case c == '{' || c == '[':
		e.lists = append(e.lists, c == '[')
		return e.first()
	case c == ',':
		return e.next()
	case (c == '}' || c == ']') && len(e.lists) > 0:
		e.lists = e.lists[:len(e.lists)-1]
	}
	return 0
}

// first returns the memory of an object or of the first element of a list.
func (e *estimate) first() int {
	if len(e.lists) == 1 {
		return objectCost
	}
	return e.next()
}

// next returns the memory of a field or an element. Lists of objects are fields of the text.
func (e *estimate) next() int {
	switch depth := len(e.lists); {
	case depth == 0 || !e.lists[depth-1]:
		return valueCost
	case depth == 2:
		return objectCost
	default:
		return elementCost
	}
}
