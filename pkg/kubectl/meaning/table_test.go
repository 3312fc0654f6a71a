package meaning

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"gotest.tools/v3/assert"
)

// TestTableHasItsFormat checks each line, because rules() skips what it does not understand.
func TestTableHasItsFormat(t *testing.T) {
	t.Parallel()
	for line := range strings.Lines(table) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch key {
		case "", "#":
		case "section", "when", "where":
			for _, c := range conditions(value) {
				for _, pattern := range c.values {
					_, err := path.Match(pattern, "")
					assert.Check(t, err == nil && c.fact != "" && pattern != "", line)
				}
			}
		case "says":
			assert.Check(t, value == strings.TrimRight(value, " .;") && strings.Count(value, "{") ==
				strings.Count(value, "}"), "texts are compared without their end: %s", line)
		case "stops", "next":
			value = strings.NewReplacer("{request}", " (req-"+id+")", "{id|ID}", id).Replace(value)
			assert.Check(t, utf8.RuneCountInString(facts{}.fill(value)) <= limit, line)
			assert.Check(t, strings.TrimRight(value, ".") == value, line)
		case "rank":
			assert.Check(t, slices.Contains(rankNames(), value), line)
		case "topic":
			all := []Topic{
				Attached, Class, Instance, Metadata, Network, Quota, ReadOnly, Registry, SELinux, Secret,
				Snapshots, Source, Zone,
			}
			assert.Check(t, slices.Contains(all, Topic(value)), line)
		default:
			t.Errorf("unknown key: %s", line)
		}
	}
}

// TestTextsOfTheTableNameOnlyWhatIsKnown checks that a text in braces is a fact, or a name in all
// patterns of the rule.
func TestTextsOfTheTableNameOnlyWhatIsKnown(t *testing.T) {
	t.Parallel()
	always := strings.Fields("cloud http kind message operation code at command exit exceeded quota " +
		"resource name webhook policy left request share volume within")
	for r := range rules() {
		assert.Check(t, len(r.says)+len(r.when) > 0, "it applies always: %v", r)
		for _, c := range r.cases {
			for _, found := range regexp.MustCompile(`\{(\w+)(\|[^}]*)?\}`).FindAllStringSubmatch(
				c.Stops+c.Next, -1) {
				missing := slices.ContainsFunc(r.says, func(pattern string) bool {
					return !strings.Contains(pattern, "{"+found[1]+"}")
				}) || len(r.says) == 0
				compared := slices.Concat(r.when, c.where)
				assert.Check(t, !missing || hasCondition(compared, found[1]) || found[2] != "" ||
					slices.Contains(always, found[1]), "%s: %s %s", found[0], c.Stops, c.Next)
			}
		}
	}
}

func hasCondition(conditions []condition, fact string) bool {
	return slices.ContainsFunc(conditions, func(c condition) bool { return c.fact == fact })
}
