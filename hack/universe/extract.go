package main

import (
	"go/ast"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// oneLine returns a text as an entry: without line breaks and tabs.
func oneLine(text string) string {
	return strings.NewReplacer("\n", `\n`, "\t", `\t`).Replace(strings.TrimSpace(text))
}

// driverErrors returns the errors of a driver: the gRPC code ("-" for an error without one, "*" for
// one that is computed), the format, and the family of the error that can follow.
func driverErrors(root string, s source) (map[string]bool, error) {
	c, err := load(root, s)
	found := map[string]bool{}
	if err != nil {
		return nil, err
	}
	c.calls(func(in *ast.FuncDecl, call *ast.CallExpr) {
		code, args := "-", call.Args
		switch name := nameOf(call.Fun); {
		case name == "Errorf" || name == "New" && isPackage(call.Fun, "errors"):
			if isPackage(call.Fun, "klog") || len(args) == 0 {
				return
			}
			if isPackage(call.Fun, "status") {
				code, args = codeOf(args[0]), args[1:]
			}
		case name == "Error" && isPackage(call.Fun, "status"):
			code, args = codeOf(args[0]), args[1:]
		default:
			return
		}
		format, known := c.text(args[0])
		if !known {
			format = "%v"
		}
		if sprintf, is := args[0].(*ast.CallExpr); is && known {
			args = sprintf.Args
		}
		found[strings.Join([]string{code, oneLine(format), c.family(in, call, args)}, "\t")] = true
	})
	return found, nil
}

func isPackage(e ast.Expr, name string) bool {
	selector, is := e.(*ast.SelectorExpr)
	return is && nameOf(selector.X) == name
}

func codeOf(e ast.Expr) string {
	if isPackage(e, "codes") {
		return nameOf(e)
	}
	return "*"
}

// family returns the family of the error that an argument is: which component's call was the last
// one that assigned it. It is "-" without an error.
func (c *code) family(in *ast.FuncDecl, call *ast.CallExpr, args []ast.Expr) string {
	for _, arg := range args {
		name := nameOf(arg)
		if selected, is := arg.(*ast.CallExpr); is && name == "Error" {
			name = nameOf(selected.Fun.(*ast.SelectorExpr).X)
		}
		if name == "message" {
			return "message" // of a user of Manila
		}
		if name != "err" && !strings.HasSuffix(name, "Err") {
			continue
		}
		origin := ""
		ast.Inspect(in, func(n ast.Node) bool {
			assign, is := n.(*ast.AssignStmt)
			if is && assign.Pos() < call.Pos() && slices.ContainsFunc(assign.Lhs, func(e ast.Expr) bool {
				return nameOf(e) == name
			}) {
				origin = path(assign.Rhs[0])
			}
			return true
		})
		return familyOf(origin)
	}
	return "-"
}

// path returns a call with its receivers, such as ns.Mount.FormatAndMount.
func path(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.CallExpr:
		return path(e.Fun)
	case *ast.SelectorExpr:
		return path(e.X) + "." + e.Sel.Name
	}
	return nameOf(e)
}

func familyOf(origin string) string {
	for _, known := range []struct{ words, family string }{
		{`(?i)metadata`, "metadata"},
		{`(?i)cloud|openstack|manilaClient|volumes|snapshots|servers|shares|backups|gopher`, "openstack"},
		{`(?i)mount|resize|blockdevice|device`, "mount"},
		{`^(os|filepath|exec|unix)\.`, "system"},
		{`^wait\.|Wait`, "wait"},
	} {
		if regexp.MustCompile(known.words).MatchString(origin) {
			return known.family
		}
	}
	return "driver"
}

// warnings returns the reasons and formats of Warning events.
func warnings(root string, s source) (map[string]bool, error) {
	c, err := load(root, s)
	found := map[string]bool{}
	if err != nil {
		return nil, err
	}
	c.calls(func(in *ast.FuncDecl, call *ast.CallExpr) {
		i := slices.IndexFunc(call.Args, func(e ast.Expr) bool { return nameOf(e) == "EventTypeWarning" })
		note := i + 2
		if i == 2 && nameOf(call.Fun) == "Eventf" {
			note++ // the events API names an action before the note
		}
		if i < 0 || note >= len(call.Args) {
			return
		}
		formats := c.texts(in, call.Args[note])
		if len(formats) == 0 {
			formats = []string{"%v"}
		}
		for _, reason := range c.texts(in, call.Args[i+1]) {
			for _, format := range formats {
				if !strings.Contains(reason, "Group") { // operators install no group snapshots
					found[componentOf(s.module)+"\t"+reason+"\t"+oneLine(format)] = true
				}
			}
		}
	})
	for name, text := range c.constants {
		if strings.HasPrefix(name, "ErrReason") {
			found["scheduler\tFailedScheduling\t"+text] = true
		}
	}
	return found, nil
}

// texts returns the texts that an expression may be: its own, or those that a function assigns.
func (c *code) texts(in *ast.FuncDecl, e ast.Expr) (all []string) {
	if text, known := c.text(e); known {
		return []string{text}
	}
	ast.Inspect(in, func(n ast.Node) bool {
		if assign, is := n.(*ast.AssignStmt); is && nameOf(assign.Lhs[0]) == nameOf(e) {
			if text, known := c.text(assign.Rhs[0]); known {
				all = append(all, text)
			}
		}
		return true
	})
	return all
}

// componentOf returns the last part of the name of a module, without its version.
func componentOf(module string) string {
	return filepath.Base(regexp.MustCompile(`/v\d+$`).ReplaceAllString(module, ""))
}

// refusals returns the texts with which admission and validation refuse an object.
func refusals(root string, s source) (map[string]bool, error) {
	c, err := load(root, s)
	found := map[string]bool{}
	if err != nil {
		return nil, err
	}
	add := func(kind string, e ast.Expr) {
		if text, known := c.text(e); known && strings.Trim(text, "%sv: ") != "" {
			found[kind+"\t"+oneLine(text)] = true
		}
	}
	for _, f := range c.functions {
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				last := len(n.Args) - 1
				switch {
				case nameOf(n.Fun) == "Errorf" && !strings.Contains(s.module, "pod-security"):
					add("forbidden", n.Args[0])
				case isPackage(n.Fun, "field") && last > 0 && nameOf(n.Fun) != "NewPath":
					add(nameOf(n.Fun), n.Args[last])
				}
			case *ast.KeyValueExpr:
				if nameOf(n.Key) == "ForbiddenReason" {
					add("PodSecurity", n.Value)
				}
			}
			return true
		})
	}
	return found, nil
}

// parameters returns the parameters of classes that a component reads: which component, the kind of
// the class, and the name.
func parameters(root string, s source) (map[string]bool, error) {
	c, err := load(root, s)
	found := map[string]bool{}
	if err != nil {
		return nil, err
	}
	sidecar := strings.Contains(s.module, "external-")
	snapshots := regexp.MustCompile("(?i)snapshot|backup")
	prefixed := regexp.MustCompile("arameters|^prepareProvision$")
	for _, f := range c.functions {
		kind := "StorageClass"
		if snapshots.MatchString(f.Name.Name + s.module) {
			kind = "VolumeSnapshotClass"
		}
		add := func(component string, e ast.Expr) {
			if name, known := c.text(e); known {
				found[component+"\t"+kind+"\t"+name] = true
			}
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.IndexExpr:
				if !sidecar && slices.Contains([]string{"volParams", "Parameters", "tags"}, nameOf(n.X)) {
					add("cinder.csi.openstack.org", n.Index)
				}
			case *ast.CaseClause:
				if sidecar && prefixed.MatchString(f.Name.Name) {
					for _, e := range n.List {
						add("*", e)
					}
				}
			}
			return true
		})
	}
	for _, value := range c.constants {
		if sidecar && regexp.MustCompile("^csi[A-Z]").MatchString(value) {
			found["*\tStorageClass\t"+value] = true // deprecated
		}
	}
	for _, t := range c.types {
		if fields, is := t.Type.(*ast.StructType); is && t.Name.Name == "ControllerVolumeContext" {
			for _, field := range fields.Fields.List {
				tag, _ := strconv.Unquote(field.Tag.Value)
				name := reflect.StructTag(tag).Get("name")
				found["manila.csi.openstack.org\tStorageClass\t"+name] = true
			}
		}
	}
	return found, nil
}
