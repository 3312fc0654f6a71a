// Package dockerfile reads how the Dockerfiles of the operators build their images, so that other
// programs can build images with the same content. Its callers are hack/images/release and the
// tests of builds.
package dockerfile

import (
	"encoding/json"
	"fmt"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Dockerfile contains how an image builds its programs, and how they run.
type Dockerfile struct {
	// Variables is the environment of the build, as arguments of the shell's export: NAME=VALUE ...
	Variables string
	// Build is the command for the shell that builds the programs, without the path of the result.
	Build string
	// Programs are the programs that the command builds.
	Programs []Program
	// User is the numeric ID of the user who runs the programs.
	User string
	// Entrypoint is the path of the program that the image runs by default.
	Entrypoint []string
	// Labels are the labels of the image.
	Labels map[string]string
}

// Program is a program of an image.
type Program struct {
	// Package is the folder of the program in the repository.
	Package string
	// Path is the path of the program in the image. All are in the folder of the entrypoint.
	Path string
}

// Built returns the name of the file that `go build -o FOLDER/` writes.
func (p Program) Built() string { return path.Base(p.Package) }

// Read reads a Dockerfile with two stages: the first builds one program by `go build ... -o FILE
// PACKAGE`, or several by `go build ... -o FOLDER/ PACKAGE...`; the second contains the programs.
// It fails if the second stage contains an instruction that Dockerfile has no field for.
func Read(file string) (Dockerfile, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return Dockerfile{}, err
	}
	continued := regexp.MustCompile(`\\\n\s*`)
	var d Dockerfile
	stages := 0
	for line := range strings.Lines(continued.ReplaceAllString(string(content), "")) {
		line = strings.TrimSpace(line)
		instruction, rest, _ := strings.Cut(line, " ")
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case instruction == "FROM":
			stages++
		case stages < 2:
			d.addToBuild(instruction, rest)
		default:
			if err := d.addToImage(instruction, rest); err != nil {
				return Dockerfile{}, fmt.Errorf("%s: %s: %w", file, line, err)
			}
		}
	}
	if err := d.validate(file); err != nil {
		return Dockerfile{}, err
	}
	return d, nil
}

func (d *Dockerfile) addToBuild(instruction, rest string) {
	build := regexp.MustCompile(`^(go build .*) -o (\S+)((?: \./\S+)+)$`)
	switch instruction {
	case "ENV":
		d.Variables = rest
	case "RUN":
		if found := build.FindStringSubmatch(rest); found != nil {
			d.Build = found[1] + found[3]
			d.addPrograms(found[2], strings.Fields(found[3]))
		}
	}
}

// addPrograms adds the programs of a build. The output is a file, or a folder if it ends with /.
func (d *Dockerfile) addPrograms(output string, packages []string) {
	for _, folder := range packages {
		program := Program{Package: folder}
		program.Path = program.Built()
		if !strings.HasSuffix(output, "/") {
			program.Path = path.Base(output)
		}
		d.Programs = append(d.Programs, program)
	}
}

func (d *Dockerfile) addToImage(instruction, rest string) error {
	switch instruction {
	case "COPY": // the programs, into the folder of the entrypoint
	case "USER":
		d.User = rest
	case "ENTRYPOINT":
		return json.Unmarshal([]byte(rest), &d.Entrypoint)
	case "LABEL":
		d.Labels = map[string]string{}
		assignment := regexp.MustCompile(`([\w.-]+)="([^"]*)"`)
		for _, label := range assignment.FindAllStringSubmatch(rest, -1) {
			d.Labels[label[1]] = label[2]
		}
	default:
		return fmt.Errorf("the instruction %s is not supported", instruction)
	}
	return nil
}

// validate completes the paths of the programs.
func (d *Dockerfile) validate(file string) error {
	switch {
	case d.Build == "" || d.Variables == "":
		return fmt.Errorf("%s: add lines `ENV NAME=VALUE` and `RUN go build ... -o FILE ./PACKAGE`",
			file)
	case len(d.Entrypoint) != 1:
		return fmt.Errorf("%s: add a line `ENTRYPOINT [\"/path/of/program\"]`", file)
	case d.User == "" || d.User == "0" || d.User == "root":
		return fmt.Errorf("%s: add a line `USER ID` with the numeric ID of a user who is not root", file)
	case d.Labels["name"] == "":
		return fmt.Errorf("%s: add a line `LABEL name=\"...\"`", file)
	}
	for i, program := range d.Programs {
		d.Programs[i].Path = path.Join(path.Dir(d.Entrypoint[0]), program.Path)
	}
	if !slices.ContainsFunc(d.Programs, func(p Program) bool { return p.Path == d.Entrypoint[0] }) {
		return fmt.Errorf("%s: ENTRYPOINT is %s, which is none of the programs", file, d.Entrypoint[0])
	}
	return nil
}
