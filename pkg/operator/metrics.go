package operator

import (
	"fmt"
	"strings"

	apimachinery "k8s.io/apimachinery/pkg/version"
	"k8s.io/component-base/metrics"
)

// registerBuildInfo adds the metric of the running build. Its name is the same as in operators that
// use library-go's controllercmd.
func registerBuildInfo(
	register func(metrics.Registerable) error, namespace string, build apimachinery.Info,
) error {
	info := metrics.NewGaugeVec(&metrics.GaugeOpts{
		Name:           strings.ReplaceAll(namespace, "-", "_") + "_build_info",
		Help:           "Always 1. The labels identify the build of the operator.",
		StabilityLevel: metrics.ALPHA,
	}, []string{
		"major", "minor", "gitVersion", "gitCommit", "gitTreeState", "buildDate", "goVersion", "compiler",
		"platform",
	})
	if err := register(info); err != nil {
		return fmt.Errorf("registering the metric of the build: %w", err)
	}
	info.WithLabelValues(
		build.Major, build.Minor, build.GitVersion, build.GitCommit, build.GitTreeState, build.BuildDate,
		build.GoVersion, build.Compiler, build.Platform,
	).Set(1)
	return nil
}
