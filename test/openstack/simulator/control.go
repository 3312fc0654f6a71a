package simulator

import (
	"context"
	"net/http"

	"github.com/openstack-csi/csi-operator/test/openstack/rpc"
)

// zoneList is the request that replaces the zones of a service.
type zoneList struct {
	Service Service
	Zones   []Zone
}

// controlHandler serves the control API. Client is its only caller and documents it.
func (s *Simulator) controlHandler() http.Handler {
	mux := http.NewServeMux()
	handleGet(mux, "info", func(context.Context) (Info, error) { return s.info, nil })
	handleGet(mux, "ca", s.CA)
	handleGet(mux, "types", s.ShareTypes)
	handleGet(mux, "faults", s.Faults)
	handleGet(mux, "revoke-tokens", s.RevokeTokens)
	handleGet(mux, "credentials", s.Credentials)
	handleGet(mux, "catalog", s.Catalog)
	handleGet(mux, "counters", s.Counters)

	rpc.Handle(mux, "clouds", func(ctx context.Context, o Clouds) (string, error) {
		text, err := s.CloudsYAML(ctx, o)
		return string(text), err
	})
	rpc.Handle(mux, "add-type", s.AddShareType)
	rpc.Handle(mux, "rotate", s.RotateCredentials)
	rpc.Handle(mux, "zones", s.Zones)
	rpc.Handle(mux, "log", s.Log)
	rpc.Handle(mux, "set-fault", s.SetFault)

	handleSet(mux, "remove-type", s.RemoveShareType)
	handleSet(mux, "order-types", s.SetShareTypeOrder)
	handleSet(mux, "token-ttl", s.SetTokenTTL)
	handleSet(mux, "clear-faults",
		func(ctx context.Context, ids []string) error { return s.ClearFaults(ctx, ids...) })
	handleSet(mux, "set-catalog", func(_ context.Context, e CatalogEntry) error {
		return s.keystone.setRemoved(e.Type, e.Removed)
	})
	handleSet(mux, "set-zones", func(ctx context.Context, list zoneList) error {
		return s.SetZones(ctx, list.Service, list.Zones...)
	})
	handleSet(mux, "reset-log",
		func(ctx context.Context, _ rpc.None) error { return s.ResetLog(ctx) })
	return mux
}

func handleGet[Out any](mux *http.ServeMux, name string, call func(context.Context) (Out, error)) {
	rpc.Handle(mux, name, func(ctx context.Context, _ rpc.None) (Out, error) { return call(ctx) })
}

func handleSet[In any](mux *http.ServeMux, name string, call func(context.Context, In) error) {
	rpc.Handle(mux, name,
		func(ctx context.Context, in In) (rpc.None, error) { return rpc.None{}, call(ctx, in) })
}
