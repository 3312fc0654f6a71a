package dockerfile_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/openstack-csi/csi-operator/hack/images/dockerfile"
)

const complete = `# A comment.
ARG BASE=scratch
FROM golang AS builder
ENV CGO_ENABLED=0
RUN go mod download
RUN go build -ldflags="-s -w" -o /out/ \
    ./cmd/demo \
    ./cmd/other

FROM ${BASE}
COPY --from=builder /out/ /usr/bin/
USER 1001
ENTRYPOINT ["/usr/bin/demo"]
LABEL name="demo" \
      summary="Does two things: a, b."
`

func TestReadRefusesWhatItCannotReproduce(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ from, to, want string }{
		{"USER 1001", "USER root", "add a line `USER ID`"},
		{"USER 1001\n", "", "add a line `USER ID`"},
		{`ENTRYPOINT ["/usr/bin/demo"]`, `ENTRYPOINT /usr/bin/demo`, "ENTRYPOINT /usr/bin/demo"},
		{`LABEL name="demo"`, `LABEL title="demo"`, "add a line `LABEL name="},
		{"RUN go build", "RUN make", "RUN go build"},
		{`["/usr/bin/demo"]`, `["/usr/bin/absent"]`, "is none of the programs"},
		{"USER 1001", "USER 1001\nRUN ln -s a b", "RUN is not supported"},
	} {
		t.Run(test.to, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "Dockerfile.demo")
			text := strings.Replace(complete, test.from, test.to, 1)
			assert.NilError(t, os.WriteFile(file, []byte(text), 0o600))
			_, err := dockerfile.Read(file)
			assert.Check(t, err != nil && strings.Contains(err.Error(), test.want),
				"error %v, want %q", err, test.want)
		})
	}
}
