package main

import (
	"go/ast"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// keys finds the keys that contain the domain of the drivers, whatever the name of the driver is.
func (c *code) keys() {
	for _, value := range c.constants {
		if strings.Contains(value, ".csi.openstack.org/") {
			c.add(value)
		}
	}
}

// errors finds the errors of a component: the gRPC code ("-" for an error without one, "*" for one
// that is computed), the format, and the family of the error that can follow ("-" for none).
func (c *code) errors() {
	c.calls(func(in *ast.FuncDecl, call *ast.CallExpr) {
		code, args := "-", call.Args
		switch name := pathOf(call.Fun); {
		case name == "status.Error" || name == "status.Errorf":
			code, args = "*", args[1:]
			if isPackage(call.Args[0], "codes") {
				code = nameOf(call.Args[0])
			}
		case in.Name.Name == "Error" && name == "fmt.Sprintf": // of a type of errors
		case name == "NewMountError":
			args = args[1:]
		case name != "fmt.Errorf" && name != "errors.New":
			return
		}
		format, known := c.text(args[0])
		if !known {
			format = "%v"
		}
		if sprintf, is := args[0].(*ast.CallExpr); is && known {
			args = sprintf.Args
		}
		family := familyOf(in, call, args)
		if family == "-" && strings.Contains(format, "%w") {
			family = "driver"
		}
		c.add(code, format, family)
	})
}

func isPackage(e ast.Expr, name string) bool {
	selector, is := e.(*ast.SelectorExpr)
	return is && nameOf(selector.X) == name
}

// familyOf returns the family of the error in the arguments of a call: that of the last call
// before it that returned the error.
func familyOf(in *ast.FuncDecl, call *ast.CallExpr, args []ast.Expr) string {
	for _, arg := range args {
		name := nameOf(arg)
		if selected, is := arg.(*ast.CallExpr); is && name == "Error" {
			name = nameOf(selected.Fun.(*ast.SelectorExpr).X)
		}
		if name == "message" {
			return "message" // to a user of Manila
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
				origin = pathOf(assign.Rhs[0])
			}
			return true
		})
		for _, known := range []struct{ words, family string }{
			{`(?i)metadata`, "metadata"},
			{`(?i)cloud|openstack|manila|volumes|snapshots|servers|shares|backups|gopher`, "openstack"},
			{`(?i)command|cmd`, "exit"},
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
	return "-"
}

// warnings finds the component, reasons and formats of Warning events, and the scheduler's reasons.
func (c *code) warnings() {
	c.calls(func(in *ast.FuncDecl, call *ast.CallExpr) {
		if nameOf(call.Fun) == "NewStatus" && len(call.Args) > 1 {
			for _, reason := range c.texts(in, call.Args[1]) {
				if reason != "" {
					c.add("scheduler", "FailedScheduling", reason)
				}
			}
		}
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
					c.add(c.component, reason, format)
				}
			}
		}
	})
	for name, text := range c.constants {
		if strings.HasPrefix(name, "ErrReason") {
			c.add("scheduler", "FailedScheduling", text)
		}
	}
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

// refusals finds the kinds and texts with which admission and validation refuse an object.
func (c *code) refusals() {
	add := func(kind string, e ast.Expr) {
		if text, known := c.text(e); known && strings.Trim(text, "%sv: ") != "" {
			c.add(kind, text)
		}
	}
	c.nodes(func(_ *ast.FuncDecl, n ast.Node) {
		switch n := n.(type) {
		case *ast.CallExpr:
			last := len(n.Args) - 1
			switch {
			case nameOf(n.Fun) == "Errorf" && c.component != "pod-security-admission":
				add("forbidden", n.Args[0])
			case isPackage(n.Fun, "field") && last > 0 && nameOf(n.Fun) != "NewPath":
				add(nameOf(n.Fun), n.Args[last])
			}
		case *ast.KeyValueExpr:
			if nameOf(n.Key) == "ForbiddenReason" {
				add("PodSecurity", n.Value)
			}
		}
	})
}

// parameters finds the parameters of classes that a component reads: its driver ("*" for a
// sidecar), the kind of the class, and the name.
func (c *code) parameters() {
	snapshots := regexp.MustCompile("(?i)snapshot|backup")
	prefixed := regexp.MustCompile("arameters|^prepareProvision$")
	sidecar := strings.HasPrefix(c.component, "external-")
	c.nodes(func(in *ast.FuncDecl, n ast.Node) {
		kind := "StorageClass"
		if snapshots.MatchString(in.Name.Name + c.component) {
			kind = "VolumeSnapshotClass"
		}
		switch n := n.(type) {
		case *ast.IndexExpr:
			name, known := c.text(n.Index)
			of := nameOf(n.X)
			if known && !sidecar && slices.Contains([]string{"volParams", "Parameters", "tags"}, of) {
				c.add("cinder.csi.openstack.org", kind, name)
			}
		case *ast.CaseClause:
			for _, e := range n.List {
				if name, known := c.text(e); known && sidecar && prefixed.MatchString(in.Name.Name) {
					c.add("*", kind, name)
				}
			}
		}
	})
	for _, value := range c.constants {
		if sidecar && regexp.MustCompile("^csi[A-Z]").MatchString(value) {
			c.add("*", "StorageClass", value) // deprecated
		}
	}
	for _, t := range c.types {
		if fields, is := t.Type.(*ast.StructType); is && t.Name.Name == "ControllerVolumeContext" {
			for _, field := range fields.Fields.List {
				tag, _ := strconv.Unquote(field.Tag.Value)
				c.add("manila.csi.openstack.org", "StorageClass", reflect.StructTag(tag).Get("name"))
			}
		}
	}
}
