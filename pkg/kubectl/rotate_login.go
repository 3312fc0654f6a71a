package kubectl

import (
	"context"
	"fmt"

	"github.com/openstack-csi/csi-operator/pkg/clouds"
)

// tryLogin logs in with the new credentials. A CA that only the cluster has prevents it.
func (r *rotation) tryLogin(ctx context.Context, args []string) error {
	say := func(c *cloud, answer Link, err error) error {
		answers := []Link{answer}
		switch {
		case err != nil:
			answers[0] = linkf(OK, "The login was not tested: %v", err)
		case answer.State == OK:
			answers = append(answers, c.expiry(ctx)...)
		}
		for _, a := range answers {
			fmt.Fprintln(r.Out, wrap("", a.Text, 0))
		}
		if answers[0].State != OK {
			return errProblem
		}
		return nil
	}
	if len(args) > 0 {
		c := &cloud{clouds: args[0], cacert: r.cacert}
		answer, err := c.login(ctx)
		return say(c, answer, err)
	}
	for _, source := range r.sources {
		name := fmt.Sprintf("Secret %s/%s", source.Namespace, source.Name)
		content := clouds.Content{Name: name, Data: r.wanted(source), CAElsewhere: true}
		login, err := content.Login()
		if err == nil && login.CA == "" && login.CAPath != "" {
			err = fmt.Errorf("its CA, %s, is in the cluster", printable(login.CAPath))
		}
		var answer Link
		c := &cloud{clouds: name}
		if err == nil {
			answer = c.accepts(ctx, login)
		}
		if err = say(c, answer, err); err != nil {
			return err
		}
	}
	return nil
}
