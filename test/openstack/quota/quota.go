// Package quota contains the limits of the simulated Cinder and Manila, and the use of what is
// limited. The packages of both services use it.
package quota

import "slices"

// Unlimited is the limit of what has none.
const Unlimited = -1

// Limit is how much a project may use of a resource. The lists of both services show it.
type Limit struct {
	// Resource is its name in quota sets, such as gigabytes. Cinder's resources of a volume type have
	// names such as gigabytes_TYPE.
	Resource string
	// Limit is Unlimited if there is none, and 0 if nothing is allowed.
	Limit int
	// ShareType is a share type of Manila, and User is true for the user of the credentials. At most
	// one of them is set; without both, the limit is that of the project.
	ShareType string
	User      bool
	// Others is what others in the project use, and Reserved what their requests reserve. Only the
	// simulator has them, and only for limits of the project.
	Others, Reserved int
}

// Limits are those of a service. A resource without a limit is unlimited.
type Limits []Limit

// Set adds limits, or replaces those of the same resource and owner.
func (l *Limits) Set(added ...Limit) {
	for _, one := range added {
		*l = slices.DeleteFunc(*l, func(old Limit) bool {
			return old.Resource == one.Resource && old.ShareType == one.ShareType && old.User == one.User
		})
		*l = append(*l, one)
	}
}

// Of returns the limit of a resource for a share type, for the user, or for the project. Share
// types and users without a limit of their own have that of the project.
func (l Limits) Of(resource, shareType string, user bool) Limit {
	found := Limit{Resource: resource, Limit: Unlimited}
	for _, one := range l {
		isProjects := one.ShareType == "" && !one.User
		if one.Resource == resource && isProjects {
			found = one
		}
	}
	for _, one := range l {
		if one.Resource == resource && one.ShareType == shareType && one.User == user {
			found = one
		}
	}
	return found
}

// Use is the use of a resource. What is reserved belongs to operations that are not complete.
type Use struct{ InUse, Reserved int }

// Total returns what counts for limits.
func (u Use) Total() int { return u.InUse + u.Reserved }

// Add adds use.
func (u *Use) Add(inUse, reserved int) {
	u.InUse += inUse
	u.Reserved += reserved
}

// With returns the use with that of others in the project.
func (u Use) With(l Limit) Use { return Use{u.InUse + l.Others, u.Reserved + l.Reserved} }

// Exceeds returns whether more of a resource exceeds its limit. What needs no more never does.
func (l Limit) Exceeds(use Use, more int) bool {
	return l.Limit != Unlimited && more > 0 && use.Total()+more > l.Limit
}

// Describe returns a limit and its use as in quota sets.
func (l Limit) Describe(use Use) map[string]any {
	return map[string]any{"limit": l.Limit, "in_use": use.InUse, "reserved": use.Reserved}
}
