package openstack

import "errors"

// What messages name as on OpenShift. Access.Words replaces it where it differs.
const (
	TheSecret = "the credentials Secret"
	OrBundle  = ", or into the trusted CA bundle of the cluster (trustedCA of Proxy/cluster)"
	TheProxy  = "Proxy/cluster (on HyperShift the management cluster's)"
)

// worded returns an error of a request with the words of the access.
func (c *Client) worded(err error) error {
	own, ok := errors.AsType[*Error](err)
	if !ok || c.words == nil {
		return err
	}
	return &Error{own.Reason, c.words.Replace(own.Message)}
}
