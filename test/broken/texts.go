package broken

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/gophercloud/gophercloud/v2"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const (
	volumes = "https://cinder.example.com:8776/v3/a1b2c3d4e5f60718293a4b5c6d7e8f90/"
	shares  = "https://manila.example.com:8786/v2/"
	servers = "https://nova.example.com:8774/v2.1/servers/"
)

// answered returns the error of gophercloud for an answer: status, kind and message.
func answered(method, url string, expected []int, answer string) error {
	words := strings.SplitN(answer, " ", 3)
	code, _ := strconv.Atoi(words[0]) // 0 is no status
	body, _ := json.Marshal(map[string]any{
		words[1]: map[string]any{"code": code, "message": words[2]},
	})
	return gophercloud.ErrUnexpectedResponseCode{
		URL: url, Method: method, Expected: expected, Actual: code, Body: body,
	}
}

func rpc(code codes.Code, format string, args ...any) string {
	return status.Errorf(code, format, args...).Error()
}

// login returns the error of a driver whose login Keystone refuses.
func (b *builder) login() string {
	err := answered("POST", "https://keystone.example.com:5000/v3/auth/tokens", []int{201, 203},
		"401 error The request you have made requires authentication.")
	if b.title == "manila" {
		return rpc(codes.Unauthenticated,
			"failed to create Manila v2 client: failed to authenticate: %v", err)
	}
	return rpc(codes.Internal, "Failed to get volumes: %v", err)
}

// failure returns the error that a component prints for an answer or for the text of an error.
func (b *builder) failure(operation, text string) string {
	volume, instance := b.id("volume"), b.id("instance")
	switch operation {
	case "rpc":
		name, desc, _ := strings.Cut(text, " ")
		return "rpc error: code = " + name + " desc = " + desc
	case "mount":
		kind, output, _ := strings.Cut(text, " ")
		from := map[string]string{"nfs": "10.0.0.5:/volumes/share-1", "ext4": "/dev/vdc"}[kind]
		return rpc(codes.Internal, "mount failed: exit status 32\nMounting command: mount\nMounting "+
			"arguments: -t %s -o defaults %s /var/lib/kubelet/volumes/mount\nOutput: %s\n",
			kind, from, output)
	case "provision": // version 6 of external-provisioner does not name the class
		if b.Flavour == Standalone {
			return fmt.Sprintf("failed to provision volume with StorageClass %q: %s", b.name("class"), text)
		}
		return text
	case "attach":
		return rpc(codes.Internal, "[ControllerPublishVolume] Attach Volume failed with error failed to "+
			"attach %s volume to %s compute: %v", volume, instance,
			answered("POST", servers+instance+"/os-volume_attachments", []int{200}, text))
	case "detach":
		instance = b.id("old-instance")
		return rpc(codes.Internal, "ControllerUnpublishVolume Detach Volume failed with error failed to "+
			"detach volume %s from compute %s : %v", volume, instance,
			answered("DELETE", servers+instance+"/os-volume_attachments/"+volume, []int{202}, text))
	}
	if b.title == "manila" {
		return b.ofManila(operation, text)
	}
	return b.ofCinder(operation, text)
}

func (b *builder) ofCinder(operation, answer string) string {
	volume := b.id("volume")
	switch operation {
	case "create":
		err := answered("POST", volumes+"volumes", []int{202}, answer)
		if strings.HasPrefix(answer, "413 ") {
			return rpc(codes.ResourceExhausted, "CreateVolume failed due to exceeded quota %v", err)
		}
		return rpc(codes.Internal, "CreateVolume failed with error %v", err)
	case "extend":
		return rpc(codes.Internal, "Could not resize volume %q to size %s: %v", volume, b.gib("2", "0"),
			answered("POST", volumes+"volumes/"+volume+"/action", []int{202}, answer))
	case "snap":
		return rpc(codes.Internal, "CreateSnapshot failed with error %v",
			answered("POST", volumes+"snapshots", []int{202}, answer))
	case "delete":
		return rpc(codes.Internal, "DeleteVolume failed with error %v",
			answered("DELETE", volumes+"volumes/"+volume, []int{202, 204}, answer))
	}
	b.fail(fmt.Errorf("unknown operation %s", operation))
	return ""
}

func (b *builder) ofManila(operation, answer string) string {
	volume := b.id("volume")
	switch operation {
	case "create":
		return rpc(codes.Internal, "failed to create volume pvc-%s: %v", volume,
			answered("POST", shares+"shares", []int{200, 202}, answer))
	case "extend":
		return rpc(codes.Internal, "failed to resize volume pvc-%s: %v", volume,
			answered("POST", shares+"shares/"+volume+"/action", []int{202}, answer))
	case "snap":
		return rpc(codes.Internal, "failed to create snapshot snapshot-%s of volume  %s: %v",
			b.id("content"), volume, answered("POST", shares+"snapshots", []int{202}, answer))
	case "delete":
		return rpc(codes.Internal, "failed to delete volume %s: %v", volume,
			answered("DELETE", shares+"shares/"+volume, []int{202}, answer))
	}
	b.fail(fmt.Errorf("unknown operation %s", operation))
	return ""
}
