package cinder

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/gcfg.v1"
	"gopkg.in/gcfg.v1/scanner"
	"gopkg.in/gcfg.v1/token"
)

const (
	userSection = "BlockStorage"
	// metadataSection contains one setting that users may configure: where the driver looks up the
	// server that it runs on.
	metadataSection = "Metadata"
	searchOrderKey  = "search-order"
	// devicePathKey belongs to the in-tree driver. Guesses by path have attached wrong volumes.
	devicePathKey = "trust-device-path"
	// byteOrderMark starts the texts of some editors; gcfg removes it from files only.
	byteOrderMark = "\ufeff"
)

// Options are the settings of the operator in cloud.conf. Paths are those in its containers.
type Options struct {
	// Cloud is the name of an entry in CloudsFile.
	CloudsFile, Cloud string
	// CAFile is the path of the CA of the cloud, empty if the cloud needs none.
	CAFile string
	// Insecure means that the driver does not verify certificates.
	Insecure bool
}

// CloudConf returns the cloud.conf of the driver: [Global] from the options, and [BlockStorage] and
// search-order of [Metadata] from the user's text, which may be empty. It drops the rest of the
// user's text, because settings of the in-tree driver prevent the CSI driver from starting, or make
// it use other credentials. From the result the driver reads the same [BlockStorage] as from the
// user's text, except trust-device-path. A text that neither the driver nor earlier operators can
// read is a *SyntaxError.
func CloudConf(user []byte, o Options) ([]byte, error) {
	text, err := driverText(user)
	if err != nil {
		return nil, err
	}
	conf := bytes.NewBufferString(o.section())
	entries := entriesOf(text)
	for _, section := range userSections() {
		// One header for all sections. Repeated settings stay, for the last one counts.
		header := "\n[" + section + "]\n"
		for _, e := range entries {
			if e.section != section || !e.setting() {
				continue
			}
			conf.WriteString(header + e.text + "\n")
			header = ""
		}
	}
	return conf.Bytes(), nil
}

func userSections() []string { return []string{userSection, metadataSection} }

func (o Options) section() string {
	lines := [][2]string{{"clouds-file", o.CloudsFile}, {"cloud", o.Cloud}}
	if o.CAFile != "" {
		lines = append(lines, [2]string{"ca-file", o.CAFile})
	}
	if o.Insecure {
		lines = append(lines, [2]string{"tls-insecure", "true"})
	}
	text := "[Global]\nuse-clouds = true\n"
	for _, line := range lines {
		text += line[0] + " = " + quote(line[1]) + "\n"
	}
	return text
}

var plain = regexp.MustCompile(`^[A-Za-z0-9_./:@-]+$`)

// quote returns a value in the syntax of gcfg. Users choose the names of clouds. pkg/clouds
// refuses those that the syntax cannot express.
func quote(value string) string {
	if plain.MatchString(value) {
		return value
	}
	escape := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\t", `\t`)
	return `"` + escape.Replace(value) + `"`
}

// entry is the header of a section or a setting, on one line or more.
type entry struct {
	line int
	// section is the one of userSections that the entry is in, or whose header it is, or "".
	section string
	// name is the name of a setting, "" for a header. text is the setting, or the name of the section.
	name, text string
}

// setting reports whether the driver gets the setting.
func (e entry) setting() bool {
	if e.section == metadataSection {
		return e.isSearchOrder() && e.remarkAboutOrder() == ""
	}
	return e.section != "" && e.name != "" && !strings.EqualFold(e.name, devicePathKey)
}

func (e entry) isSearchOrder() bool {
	return e.section == metadataSection && strings.EqualFold(e.name, searchOrderKey)
}

// remarkAboutOrder returns why the operator does not pass on a search order, or "". The driver
// would find no metadata, so it would not start on nodes.
func (e entry) remarkAboutOrder() string {
	var config driverConfig
	err := gcfg.ReadStringInto(&config, "["+metadataSection+"]\n"+e.text)
	sources := strings.Split(config.Metadata.SearchOrder, ",")
	if err != nil || len(sources) > 2 || slices.ContainsFunc(sources, func(source string) bool {
		return !slices.Contains([]string{"configDrive", "metadataService"}, strings.TrimSpace(source))
	}) {
		return "this setting is ignored, because the CSI driver accepts only configDrive, " +
			"metadataService, or both with a comma between them. Correct it"
	}
	return ""
}

// entriesOf splits a text with valid syntax. Values keep the spelling that the scanner reports, so
// that unquoting and quoting loses nothing. The driver does not read a [BlockStorage "subsection"].
func entriesOf(text []byte) []entry {
	files := token.NewFileSet()
	file := files.AddFile("", files.Base(), len(text))
	var s scanner.Scanner
	s.Init(file, text, nil, 0)
	var entries []entry
	inside := ""
	for pos, tok, name := s.Scan(); tok != token.EOF; pos, tok, name = s.Scan() {
		switch tok {
		case token.LBRACK:
			_, _, section := s.Scan()
			_, next, _ := s.Scan()
			i := slices.IndexFunc(userSections(),
				func(known string) bool { return strings.EqualFold(section, known) })
			if inside = ""; next == token.RBRACK && i >= 0 {
				inside = userSections()[i]
			}
			entries = append(entries, entry{line: file.Line(pos), section: inside, text: section})
		case token.IDENT:
			content := name
			if _, next, _ := s.Scan(); next == token.ASSIGN {
				_, _, value := s.Scan()
				content = strings.TrimSuffix(name+" = "+value, " ")
			}
			entries = append(entries, entry{file.Line(pos), inside, name, content})
		}
	}
	return entries
}

// SyntaxError is a cloud.conf that the driver cannot read. It contains nothing of the text, which
// may contain passwords.
type SyntaxError struct {
	// Line counts from 1.
	Line    int
	Problem string
}

// Error returns a text to append to the name of the source.
func (e *SyntaxError) Error() string {
	return fmt.Sprintf("cannot be used because of line %d: %s", e.Line, e.Problem)
}

var positioned = regexp.MustCompile(`(?s)^(\d+):\d+: (.*?)(?: \(and \d+ more errors\))?$`)

// checkSyntax parses the text with gcfg, the parser of the driver.
func checkSyntax(text []byte) *SyntaxError {
	err := gcfg.FatalOnly(gcfg.ReadInto(&struct{}{}, bytes.NewReader(text)))
	if err == nil {
		return nil
	}
	// Only some errors of gcfg have a field with the position, but the text of each starts with it.
	fault := &SyntaxError{1, problem("")}
	if found := positioned.FindStringSubmatch(err.Error()); found != nil {
		if line, err := strconv.Atoi(found[1]); err == nil {
			fault = &SyntaxError{line, problem(found[2])}
			lines := bytes.Split(text, []byte("\n"))
			pattern := regexp.MustCompile(`^\s*([\w-]+(?: [\w -]*\w)?)\s*[=:]`)
			name := pattern.FindSubmatch(lines[min(line, len(lines))-1])
			switch {
			case name != nil && bytes.ContainsAny(name[1], "_ "):
				fault.Problem = "the names of settings have - in place of _ and spaces" +
					similar(string(name[1]))
			case name != nil && slices.Contains(knownSettings(), string(bytes.ToLower(name[1]))):
				fault.Problem = string(bytes.ToLower(name[1])) + ": " + fault.Problem
			}
		}
	}
	return fault
}

// problem returns advice about an error of gcfg. It drops the text of the error, which may quote
// the configuration.
func problem(message string) string {
	switch message {
	case "string not terminated":
		return "a quotation mark is not closed on its line"
	case "unknown escape sequence":
		return `between quotation marks a backslash is valid only in \\, \", \n and \t, ` +
			`and in the name of a section only in \\ and \"`
	case `unquoted '\' must be followed by new line or double quote`:
		return `a backslash is valid only before a quotation mark or at the end of a line. ` +
			`Write it as "\\", with the quotation marks`
	case "illegal UTF-8 encoding", "illegal character NUL":
		return "the text is not UTF-8 without NUL"
	case "expected section name", "expected subsection name or right bracket",
		"expected right bracket", "empty subsection name":
		return `a section is not written as [name] or [name "subsection"]`
	case "expected '='":
		return "a name is followed by something other than = or the end of the line"
	case "expected EOL, EOF, or comment":
		return "only a comment may follow the end of a section's header or of a value"
	default:
		return "a character is not allowed here. " +
			"Settings are written as name = value, with names of letters, digits and -; comments begin " +
			"with ; or #"
	}
}
