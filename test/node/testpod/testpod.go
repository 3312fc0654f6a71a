// Package testpod is the program of the pods in the tests of package node. Only command testpod
// calls it.
package testpod

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

// requestTimeout bounds a request. The caller repeats requests that fail.
const requestTimeout = 10 * time.Second

// Main runs the command and returns its exit code.
func Main(args []string, stdout, stderr io.Writer) int {
	if err := run(append(args, "", ""), stdout); err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	return 0
}

// run runs a command with one argument.
func run(args []string, stdout io.Writer) error {
	switch command := args[0]; command {
	case "pause":
		stop := make(chan os.Signal, 1)
		signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
		<-stop
		return nil
	case "serve":
		return serve(args[1], stdout)
	case "get":
		return get(args[1], stdout)
	case "mount":
		return mount(args[1])
	case "stat":
		_, err := os.Stat(args[1])
		return err
	case "who-am-i":
		return whoAmI(stdout)
	default:
		return fmt.Errorf("command %q is not known", command)
	}
}

// serve answers each request with the text.
func serve(text string, stdout io.Writer) error {
	fmt.Fprintln(stdout, "serving", text)
	server := &http.Server{
		Addr: ":8080", ReadHeaderTimeout: requestTimeout,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, text) // it fails only if the client is gone
		}),
	}
	return server.ListenAndServe()
}

// get prints the answer to a request.
func get(url string, stdout io.Writer) error {
	ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return errors.New(response.Status)
	}
	_, err = io.Copy(stdout, response.Body)
	return err
}

// mount mounts a file system with a file on the folder.
func mount(folder string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	if err := syscall.Mount("tmpfs", folder, "tmpfs", 0, ""); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, "mounted"), nil, 0o600)
}

// whoAmI prints the user of the token of the pod.
func whoAmI(stdout io.Writer) error {
	ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
	defer cancel()
	const files = "/var/run/secrets/kubernetes.io/serviceaccount"
	token, err := os.ReadFile(filepath.Join(files, "token"))
	if err != nil {
		return err
	}
	ca, err := os.ReadFile(filepath.Join(files, "ca.crt"))
	if err != nil {
		return err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	host := net.JoinHostPort(os.Getenv("KUBERNETES_SERVICE_HOST"),
		os.Getenv("KUBERNETES_SERVICE_PORT"))
	request, err := http.NewRequestWithContext(ctx, http.MethodPost,
		"https://"+host+"/apis/authentication.k8s.io/v1/selfsubjectreviews",
		bytes.NewBufferString(`{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}`))
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+string(token))
	request.Header.Set("Content-Type", "application/json")
	client := http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12},
	}}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	var review struct {
		Status struct {
			UserInfo struct {
				Username string `json:"username"`
			} `json:"userInfo"`
		} `json:"status"`
	}
	if err := json.NewDecoder(response.Body).Decode(&review); err != nil {
		return err
	}
	fmt.Fprintln(stdout, review.Status.UserInfo.Username)
	return nil
}
