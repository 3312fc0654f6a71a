//go:build linux

package sharedfilesystems

import (
	"net/http"
	"strings"

	"github.com/openstack-csi/csi-operator/test/openstack/rest"
)

// resize begins to extend or to shrink a share.
func (s *Service) resize(r *rest.Request, action string) (rest.Answer, error) {
	var wanted struct {
		NewSize int `json:"new_size"`
	}
	if err := r.Decode(action, &wanted); err != nil || wanted.NewSize == 0 {
		return rest.Answer{}, rest.BadRequest("New share size must be specified as an integer.")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	share, err := s.share(r.PathValue("id"))
	if err != nil {
		return rest.Answer{}, err
	}
	status := shrinking
	if strings.HasSuffix(action, "extend") {
		status, err = extending, s.canExtend(share, wanted.NewSize)
	} else {
		err = canShrink(share, wanted.NewSize)
	}
	if err != nil {
		return rest.Answer{}, err
	}
	err = s.change(share.ID, func(v *Share) {
		v.Status, v.NewSize = status, wanted.NewSize
		share = *v
	})
	if err != nil {
		return rest.Answer{}, err
	}
	s.continueShare(share, r.Outcome)
	return rest.Answer{Status: http.StatusAccepted}, nil
}

func (s *Service) canExtend(share Share, size int) error {
	switch {
	case share.Status != available:
		return rest.BadRequest("Invalid share: Share %s status must be 'available' to extend, but "+
			"current status is: %s..", share.ID, share.Status)
	case size <= share.Size:
		return rest.BadRequest("Invalid input received: New size for extend must be greater than "+
			"current size. (current: %d, extended: %d)..", share.Size, size)
	}
	if err := s.checkQuota(quotaRequest{shareSize: size}); err != nil {
		return err
	}
	if err := s.checkQuota(quotaRequest{gigabytes: size - share.Size}); err != nil {
		return rest.Forbidden("%s", err) // this action answers 403, others 413
	}
	return nil
}

func canShrink(share Share, size int) error {
	switch {
	case share.Status != available && share.Status != wouldLoseData:
		return rest.BadRequest("Invalid share: Share %s status must in (available, %s) to shrink, but "+
			"current status is: %s..", share.ID, wouldLoseData, share.Status)
	case size >= share.Size || size <= 0:
		return rest.BadRequest("Invalid input received: New size for shrink must be less than current "+
			"size and greater than 0 (current: %d, new: %d).", share.Size, size)
	}
	return nil
}
