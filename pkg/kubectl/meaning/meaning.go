// Package meaning judges parsed errors: what stops a request, whether another error is its cause,
// and what to do next.
package meaning

import "github.com/openstack-csi/csi-operator/pkg/kubectl/fault"

// Meaning is what an error says about storage.
type Meaning struct {
	// Stops is what stops the request, as the end of a sentence, such as "quota gigabytes of the
	// OpenStack project has 3 of 10 left"; "" if the text itself is enough.
	Stops string
	// Next is what to do next, as a sentence without a period; "" if the text does not tell.
	Next string
	// Rank says how far the error leads.
	Rank Rank
}

// Rank orders errors of one step: a higher one is closer to the cause.
type Rank int

// The ranks, from the weakest.
const (
	// Unknown is an error that nobody has judged. Something else may be the cause.
	Unknown Rank = iota
	// Consequence is what follows from an earlier error, such as "an operation already exists".
	Consequence
	// Unreachable says that OpenStack or the driver did not answer.
	Unreachable
	// LoginRefused says that OpenStack refused the login, so the credentials are the cause.
	LoginRefused
	// Answered says that the driver, OpenStack or the node refused the request: nothing else stops
	// it.
	Answered
)

// Of returns what an error means.
func Of(fault.Fault) Meaning { return Meaning{} }
