package rest

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// Version is a microversion.
type Version struct{ Major, Minor int }

// String returns the version as clients write it, such as 3.42.
func (v Version) String() string { return fmt.Sprintf("%d.%d", v.Major, v.Minor) }

// AtLeast returns whether the version has that minor number or a higher one.
func (v Version) AtLeast(minor int) bool { return v.Minor >= minor }

// Versions are the microversions of a service.
type Versions struct {
	Minimum, Maximum Version
	// Service is its name in the header OpenStack-API-Version, "" if it ignores that header.
	Service string
	// Header is the name of a header of its own, "" if there is none.
	Header string
}

// commonHeader contains the microversions of several services, such as "volume 3.42".
const commonHeader = "OpenStack-API-Version"

// requested returns the version that a request asks for, or the minimum. With a version that the
// service does not have it returns an error too. The version is zero if the text is malformed.
func (v Versions) requested(header http.Header) (Version, error) {
	text := ""
	if v.Header != "" {
		text = header.Get(v.Header)
	}
	for entry := range strings.SplitSeq(header.Get(commonHeader), ",") {
		service, number, found := strings.Cut(strings.TrimSpace(entry), " ")
		if found && service == v.Service {
			text = number
		}
	}
	switch text {
	case "":
		return v.Minimum, nil
	case "latest":
		return v.Maximum, nil
	}
	major, minor, _ := strings.Cut(text, ".")
	version := Version{}
	var errMajor, errMinor error
	version.Major, errMajor = strconv.Atoi(major)
	version.Minor, errMinor = strconv.Atoi(minor)
	if errMajor != nil || errMinor != nil {
		return Version{}, BadRequest("API Version String %s is of invalid format. Must be of format "+
			"MajorNum.MinorNum.", text)
	}
	if version.Major != v.Minimum.Major || version.Minor < v.Minimum.Minor ||
		version.Minor > v.Maximum.Minor {
		return version, &Error{Status: http.StatusNotAcceptable, Message: fmt.Sprintf("Version %s "+
			"is not supported by the API. Minimum is %s and maximum is %s.", text, v.Minimum, v.Maximum)}
	}
	return version, nil
}

func (v Versions) announce(header http.Header, version Version) {
	if v.Service != "" {
		header.Set(commonHeader, v.Service+" "+version.String())
		header.Add("Vary", commonHeader)
	}
	if v.Header != "" {
		header.Set(v.Header, version.String())
		header.Add("Vary", v.Header)
	}
}

// Unsupported returns the error of a request that needs another microversion.
func (r *Request) Unsupported() error {
	return NotFound("API version %s is not supported on this method.", r.Version)
}

// Versions returns the microversions of the service.
func (s *Service) Versions() Versions { return s.versions }
