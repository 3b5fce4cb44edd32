// An ordinary hcloud-go client against `aplomb sim hetzner`.
//
// It uses the library as any controller does and nothing that only the simulator has, except to
// set the scene. Usage: hcloud-go ENDPOINT SMALL_ENDPOINT TOKEN, where the second simulator has a
// limit of a few requests. Prints one line per check and `N passed, N failed`.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/hetznercloud/hcloud-go/v2/hcloud"
)

const scene = `{
  "servers": [{"id": 1, "name": "one", "labels": {"role": "gateway"}}, {"id": 2, "name": "two"}],
  "floating_ips": [{"id": 10, "name": "egress", "ip": "192.0.2.10", "server": 1},
                   {"id": 11, "name": "spare", "ip": "192.0.2.11"}]
}`

type check struct {
	name string
	run  func(context.Context, *hcloud.Client) error
}

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: hcloud-go ENDPOINT SMALL_ENDPOINT TOKEN")
		os.Exit(2)
	}
	endpoint, small, token := os.Args[1], os.Args[2], os.Args[3]
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	control = endpoint
	passed, failed := 0, 0
	for _, each := range []struct {
		client *hcloud.Client
		checks []check
	}{
		{client(endpoint, token), ordinary},
		{client(endpoint, "a token nobody has"), []check{{"a wrong token is unauthorized", unauthorized}}},
		{client(small, token), []check{{"an empty bucket is a rate-limit error", rateLimited}}},
	} {
		for _, check := range each.checks {
			if err := check.run(ctx, each.client); err != nil {
				failed++
				fmt.Printf("FAIL %s: %v\n", check.name, err)
				continue
			}
			passed++
			fmt.Printf("ok   %s\n", check.name)
		}
	}
	fmt.Printf("%d passed, %d failed\n", passed, failed)
	if failed > 0 {
		os.Exit(1)
	}
}

func client(endpoint, token string) *hcloud.Client {
	return hcloud.NewClient(
		hcloud.WithEndpoint(endpoint+"/v1"),
		hcloud.WithToken(token),
		hcloud.WithApplication("aplomb-hcloud-go-test", "1"),
		hcloud.WithPollOpts(hcloud.PollOpts{BackoffFunc: hcloud.ConstantBackoff(50 * time.Millisecond)}),
		// A refusal is to be seen and not waited out.
		hcloud.WithRetryOpts(hcloud.RetryOpts{BackoffFunc: hcloud.ConstantBackoff(0), MaxRetries: 0}),
	)
}

var control string

// sim asks the simulator itself for something.
func sim(ctx context.Context, method, path, body string) error {
	request, err := http.NewRequestWithContext(ctx, method, control+"/_sim/"+path, bytes.NewBufferString(body))
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s %s: %s", method, path, answer.Status)
	}
	return nil
}

func wants(code hcloud.ErrorCode, err error) error {
	if hcloud.IsError(err, code) {
		return nil
	}
	return fmt.Errorf("want the error %q, have %v", code, err)
}

func unauthorized(ctx context.Context, c *hcloud.Client) error {
	_, err := c.Server.All(ctx)
	return wants(hcloud.ErrorCodeUnauthorized, err)
}

// rateLimited spends a small bucket and looks at the library's own error.
func rateLimited(ctx context.Context, c *hcloud.Client) error {
	for spent := 0; spent < 100; spent++ {
		_, err := c.Server.All(ctx)
		if err == nil {
			continue
		}
		var refusal hcloud.Error
		if !errors.As(err, &refusal) || refusal.Code != hcloud.ErrorCodeRateLimitExceeded {
			return fmt.Errorf("want hcloud.Error with %q, have %T: %v", hcloud.ErrorCodeRateLimitExceeded, err, err)
		}
		left := refusal.Response().Meta.Ratelimit
		if left.Remaining != 0 || left.Limit != 3 || !left.Reset.After(time.Now()) {
			return fmt.Errorf("want 0 of 3 and a Reset to come, have %+v", left)
		}
		return nil
	}
	return errors.New("100 requests were let in")
}
