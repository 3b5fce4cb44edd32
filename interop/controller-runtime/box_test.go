package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
)

var (
	config *rest.Config
	// direct asks the server, as a person would; the manager's own client asks its cache.
	direct client.Client
)

// startBox runs `aplomb box` until the returned function is called.
func startBox(dir string) (*rest.Config, func(), error) {
	program := os.Getenv("APLOMB")
	if program == "" {
		program = "aplomb"
	}
	kubeconfig := filepath.Join(dir, "kubeconfig")
	box := exec.Command(program, "box", "--kubeconfig", kubeconfig)
	box.Stderr = os.Stderr
	out, err := box.StdoutPipe()
	if err != nil {
		return nil, nil, err
	}
	if err := box.Start(); err != nil {
		return nil, nil, err
	}
	stop := func() { _ = box.Process.Kill(); _ = box.Wait() }
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "ready ") {
		stop()
		return nil, nil, fmt.Errorf("aplomb box said %q: %w", line, err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	return config, stop, err
}

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	ctrl.SetLogger(zap.New(zap.WriteTo(os.Stderr)))
	dir, err := os.MkdirTemp("", "box")
	must(err)
	defer os.RemoveAll(dir)
	config, stop, err := startBox(dir)
	must(err)
	defer stop()

	// From here on it is the envtest that every operator's tests have.
	existing := true
	env := &envtest.Environment{
		Config:                config,
		UseExistingCluster:    &existing,
		CRDDirectoryPaths:     []string{"config"},
		ErrorIfCRDPathMissing: true,
	}
	_, err = env.Start()
	must(err)
	defer func() { must(env.Stop()) }()
	return withManager(env.Config, m)
}

func withManager(c *rest.Config, m *testing.M) int {
	config = c
	scheme, err := newScheme()
	must(err)
	direct, err = client.New(config, client.Options{Scheme: scheme})
	must(err)
	ctx, cancel := context.WithCancel(context.Background())
	mgr, err := newManager(ctx, config)
	must(err)
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	<-mgr.Elected()
	code := m.Run()
	cancel()
	must(<-ended)
	return code
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// eventually fails the test unless check returns nil at last.
func eventually(t *testing.T, check func() error) {
	t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}
