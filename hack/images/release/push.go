package release

import (
	"context"
	"fmt"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/openstack-csi/csi-operator/hack/sbom/bill"
)

// pushAll pushes the image and attaches the SBOMs, if there is a registry to push to. The
// credentials are those of `podman login` and `docker login`.
func (r release) pushAll(ctx context.Context, index v1.ImageIndex, bills []attachment) error {
	if r.Push == "" {
		return nil
	}
	var naming []name.Option
	if r.Insecure {
		naming = append(naming, name.Insecure)
	}
	tag, err := name.NewTag(r.repository()+":"+r.commit.version, naming...)
	if err != nil {
		return fmt.Errorf("naming the image in the registry: %w", err)
	}
	access := []remote.Option{
		remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain),
	}
	if err := remote.WriteIndex(tag, index, access...); err != nil {
		return fmt.Errorf("pushing %s: %w", tag, err)
	}
	for _, bill := range bills {
		if err := attach(tag.Repository, bill, access); err != nil {
			return fmt.Errorf("attaching the SBOM to %s: %w", tag, err)
		}
	}
	digest, err := index.Digest()
	if err != nil {
		return err
	}
	fmt.Fprintf(r.progress, "Pushed %s@%s\n", tag, digest)
	return nil
}

// attach pushes an SBOM that refers to its image. A registry lists it among the referrers of the
// image.
func attach(repository name.Repository, a attachment, access []remote.Option) error {
	document := mutate.MediaType(empty.Image, types.OCIManifestSchema1)
	document = mutate.ConfigMediaType(document, bill.MediaType)
	document, err := mutate.AppendLayers(document, static.NewLayer(a.content, bill.MediaType))
	if err != nil {
		return err
	}
	referrer := mutate.Subject(document, a.subject).(v1.Image)
	digest, err := referrer.Digest()
	if err != nil {
		return err
	}
	return remote.Write(repository.Digest(digest.String()), referrer, access...)
}
