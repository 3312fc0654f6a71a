package clouds

import (
	"bytes"
	"cmp"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"k8s.io/client-go/util/cert"

	"github.com/openstack-csi/csi-operator/pkg/position"
)

const (
	beginMark = "-----BEGIN CERTIFICATE-----"
	endMark   = "-----END CERTIFICATE-----"
)

// block is a block of PEM in a bundle, perhaps with misspelt marks.
type block struct {
	kind string
	// certificate is nil if there is a fault.
	certificate *x509.Certificate
	// fault is why readers skip the block, a clause with what to do, "" for a certificate. If broken,
	// it has the form of a certificate, and readers refuse the whole bundle.
	fault  string
	broken bool
}

// pemMark is a line at the beginning or the end of a block.
type pemMark struct {
	begins     bool
	text, kind string
	// line counts from 1. before and behind are the rest of the line.
	line           int
	before, behind string
	start, end     int
}

// marksOf returns the marks in a bundle, also misspelt ones.
func marksOf(bundle string) (marks []pemMark) {
	pattern := regexp.MustCompile(`(?i)\p{Pd} ?(BEGIN|END) ([A-Z0-9 ]*?) ?\p{Pd}{1,9}`)
	const most, longest = 2000, 200 // marks, and what is read of a line
	line, counted := 1, 0
	if upper := strings.ToUpper(bundle); !strings.Contains(upper, "BEGIN ") &&
		!strings.Contains(upper, "END ") { // to look for marks costs more
		return nil
	}
	for _, at := range pattern.FindAllStringSubmatchIndex(bundle, most) {
		line += strings.Count(bundle[counted:at[0]], "\n")
		counted = at[0]
		behind, _, _ := strings.Cut(bundle[at[1]:min(len(bundle), at[1]+longest)], "\n")
		before := bundle[max(0, at[0]-longest):at[0]]
		plain := strings.TrimRightFunc(before, func(r rune) bool { return unicode.Is(unicode.Pd, r) })
		at[0] -= len(before) - len(plain)
		marks = append(marks, pemMark{
			strings.EqualFold(bundle[at[2]:at[3]], "begin"), bundle[at[0]:at[1]],
			strings.ToUpper(bundle[at[4]:at[5]]), line,
			plain[strings.LastIndex(plain, "\n")+1:], behind, at[0], at[1],
		})
	}
	return marks
}

// blocksOf returns the blocks of a bundle, up to the last fault that messages list.
func blocksOf(bundle string) (found []block) {
	marks, faults := marksOf(bundle), 0
	for i := 0; i < len(marks) && faults < maxListed; i++ {
		begin, end := marks[i], pemMark{}
		if !begin.begins {
			faults++
			found = append(found, block{fault: fmt.Sprintf("line %d ends a block that has no beginning: "+
				"write %s before its first line", begin.line, beginMark)})
			continue
		}
		if i+1 < len(marks) {
			end = marks[i+1]
		}
		if end.text != "" && !end.begins {
			i++
		}
		one := block{kind: begin.kind, fault: faultOf(bundle, begin, end)}
		if one.fault == "" {
			one.decode(bundle[begin.start:end.end])
		}
		if one.fault != "" {
			faults++
		}
		if one.fault != "" && !strings.HasPrefix(one.fault, "line ") {
			one.fault = fmt.Sprintf("block %d (line %d) %s", len(found)+1, begin.line, one.fault)
		}
		found = append(found, one)
	}
	return found
}

// decode sets the certificate of a block, or what is wrong with it.
func (b *block) decode(text string) {
	content, _ := pem.Decode([]byte(text))
	if content == nil {
		b.fault = "is damaged. Copy it again"
		return
	}
	var err error
	if b.certificate, err = x509.ParseCertificate(content.Bytes); err != nil {
		b.fault = "contains a certificate that cannot be parsed. Copy it again, or remove it"
		b.broken = true
	}
}

// faultOf returns what is wrong with the marks of a block and with what is between them. The end is
// empty if there is none, and the beginning of the next block if that precedes it.
func faultOf(bundle string, begin, end pemMark) string {
	const hyphens = "line %d must be %s, with five hyphens on each side"
	body := bundle[begin.end:max(begin.end, end.start)]
	if begin.kind != cert.CertificateBlockType {
		other := position.Recognize([]byte(begin.text), position.Secret)
		if other.What != position.Certificate &&
			position.Similar([]string{cert.CertificateBlockType}, begin.kind) == "" {
			return "is " + other.What + ", not a certificate: " + cmp.Or(other.Advice,
				"write certificates in PEM in its place")
		}
	}
	switch {
	case strings.Contains(body, `\n`):
		return `contains \n as two characters: write line breaks`
	case begin.text != beginMark:
		return fmt.Sprintf(hyphens, begin.line, beginMark)
	case strings.Contains(begin.before, "END "), strings.Contains(end.behind, "BEGIN "):
		line := begin.line
		if begin.before == "" {
			line = end.line
		}
		return fmt.Sprintf("line %d contains the end of a block and the beginning of the next: write a "+
			"line break between them", line)
	case begin.before != "":
		return "is indented, or follows other text" + strangeIn(begin.before) + ": start its lines at " +
			"their beginning, and remove what precedes them"
	case end.text == "", end.begins:
		return "has no end. Copy it again, up to " + endMark
	case end.text != endMark:
		return fmt.Sprintf(hyphens, end.line, endMark)
	case !strings.Contains(body, "\n"):
		return "is in one line: write it with its line breaks"
	case end.before != "":
		return fmt.Sprintf("line %d must begin with %s: write a line break before it", end.line, endMark)
	case strings.TrimSpace(end.behind) != "":
		return fmt.Sprintf("line %d must contain nothing beside %s", end.line, endMark)
	}
	if at := strings.IndexFunc(body, notBase64); at >= 0 {
		return fmt.Sprintf("line %d contains what is no base64%s: copy the certificate again",
			begin.line+strings.Count(body[:at], "\n"), strangeIn(body[at:]))
	}
	return ""
}

func notBase64(char rune) bool {
	return char > unicode.MaxASCII || !unicode.IsLetter(char) && !unicode.IsDigit(char) &&
		!strings.ContainsRune("+/= \t\r\n", char)
}

// strangeIn names the first character of a text as the end of a clause unless it is in ASCII.
func strangeIn(text string) string {
	if char, _ := utf8.DecodeRuneInString(text); char > unicode.MaxASCII {
		return ", " + position.Character(char)
	}
	return ""
}

// otherBundle returns what a text without a certificate in PEM is, with what to do. It contains no
// part of the text.
func otherBundle(bundle string, blocks []block, in position.Carrier) string {
	const expected = "write one or more certificates in PEM"
	fault := slices.IndexFunc(blocks, func(b block) bool { return b.broken })
	other := position.Recognize([]byte(bundle), in)
	switch {
	case fault < 0 && other.What != "" && (len(blocks) == 0 || !strings.Contains(other.What, "PEM")):
		return other.Instead("a bundle of certificates", expected)
	case len(blocks) > 0:
		return "cannot be used: " + blocks[max(fault, 0)].fault
	}
	return "contains no PEM certificate. " + strings.ToUpper(expected[:1]) + expected[1:] + " into it"
}

// remarksAbout returns what is wrong with a bundle that drivers accept.
func remarksAbout(source string, blocks []block) (remarks []string) {
	for i, b := range blocks {
		switch c := b.certificate; {
		case strings.HasSuffix(b.kind, "PRIVATE KEY"):
			remarks = append(remarks, source+" contains a private key, which the operator copies with the "+
				"certificates: remove it, and replace the key")
		case b.fault != "":
			remarks = append(remarks, source+" contains what is not read: "+b.fault)
		case c != nil && !c.IsCA && !bytes.Equal(c.RawIssuer, c.RawSubject):
			remarks = append(remarks, fmt.Sprintf("%s: certificate %d is that of a server, not of a CA, so "+
				"it fits only this server until the certificate is renewed. Write the CA that issued it",
				source, i+1))
		}
	}
	return remarks[:min(len(remarks), maxListed)]
}
