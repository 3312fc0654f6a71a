package seed

import (
	"context"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// tokenLifetime outlives any test and any day of work.
const tokenLifetime = 24 * time.Hour

// AdminKubeconfig is a kubeconfig with the certificate of config.
func AdminKubeconfig(config *rest.Config) ([]byte, error) {
	return kubeconfig(config, "default", clientcmdapi.AuthInfo{
		ClientCertificateData: config.CertData,
		ClientKeyData:         config.KeyData,
	})
}

// ServiceAccountKubeconfig is a kubeconfig with a token of the operator's
// service account, issued by the API server as for a pod.
func ServiceAccountKubeconfig(ctx context.Context, config *rest.Config, o Operator) ([]byte, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	seconds := int64(tokenLifetime / time.Second)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
	answer, err := client.CoreV1().ServiceAccounts(o.Namespace).CreateToken(ctx, o.Name, request, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("requesting a token of ServiceAccount %q: %w", o.Name, err)
	}
	return kubeconfig(config, o.Namespace, clientcmdapi.AuthInfo{Token: answer.Status.Token})
}

func kubeconfig(config *rest.Config, namespace string, user clientcmdapi.AuthInfo) ([]byte, error) {
	const name = "devcluster"
	out := clientcmdapi.NewConfig()
	out.Clusters[name] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthorityData: config.CAData}
	out.AuthInfos[name] = &user
	out.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name, Namespace: namespace}
	out.CurrentContext = name
	content, err := clientcmd.Write(*out)
	if err != nil {
		return nil, fmt.Errorf("encoding a kubeconfig: %w", err)
	}
	return content, nil
}
