//go:build integration

package integration

// Settings that follow the generated part of cloud.conf.
const (
	attachLimit = "\n[BlockStorage]\nnode-volume-attach-limit = 25\n"
	rescan      = "\n[BlockStorage]\nrescan-on-resize = true\n"
)

// repairsConfig changes and deletes cloud-conf, and checks that the operator repairs it.
func (e *cinderEnv) repairsConfig() {
	e.awaitAvailable()
	repaired := func() error {
		return e.hasCloudConf(map[string]string{confKey: generatedConf, topologyKey: "true"})
	}
	e.patch(configMaps(), operatorNamespace, cloudConf,
		`{"data":{"cloud.conf":"[Global]\n","enable_topology":null,"ca-bundle.pem":"a leftover"}}`)
	e.eventually(prompt, repaired)
	e.delete(configMaps(), operatorNamespace, cloudConf)
	e.eventually(prompt, repaired)
	e.awaitAvailable()
}

// followsConfigOfAdministrator checks that the operator copies the settings of block storage from
// the ConfigMap of the driver, and without one from that of the installer.
func (e *cinderEnv) followsConfigOfAdministrator() {
	is := func(conf, topology string) {
		e.t.Helper()
		e.eventually(prompt, func() error {
			return e.hasCloudConf(map[string]string{confKey: generatedConf + conf, topologyKey: topology})
		})
	}
	e.patch(configMaps(), openshiftConfig, cloudProviderConfig,
		`{"data":{"config":"[BlockStorage]\nrescan-on-resize = true\n"}}`)
	e.putUserConfig(map[string]string{"config": "[Global]\nsecret-name = openstack-credentials\n" +
		attachLimit, topologyKey: "false"})
	is(attachLimit, "false")
	e.deleteUserConfig()
	is(rescan, "true")
	e.setCloudConfigKey("nothing")
	is("", "true")
	e.awaitAvailable()
}

// setCloudConfigKey makes Infrastructure refer to a key of the installer's ConfigMap.
func (e *env) setCloudConfigKey(key string) {
	e.t.Helper()
	e.patch(configResource("infrastructures"), "", "cluster",
		`{"spec":{"cloudConfig":{"name":"cloud-provider-config","key":"`+key+`"}}}`)
}
