package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/hetznercloud/hcloud-go/v2/hcloud"
)

// In this order: each leaves the scene as the next one needs it.
var ordinary = []check{
	{"servers are listed with what they hold", servers},
	{"floating IPs are listed", list},
	{"lists are filtered by label", labelled},
	{"an address is found by name and by id", lookup},
	{"what is not there is nil", missing},
	{"answers carry the rate limit", ratelimit},
	{"assign, wait, and the holder has changed", assign},
	{"a second assign meanwhile is locked", locked},
	{"unassign, wait, and nobody holds it", unassign},
	{"a failed action is an ActionError", failing},
	{"labels and description are updated", update},
	{"an assigned address is not deleted, a free one is", remove},
}

func servers(ctx context.Context, c *hcloud.Client) error {
	if err := sim(ctx, "PUT", "state", scene); err != nil {
		return err
	}
	all, err := c.Server.All(ctx)
	if err != nil {
		return err
	}
	if len(all) != 2 || all[0].Name != "one" || all[0].Status != hcloud.ServerStatusRunning {
		return fmt.Errorf("have %d servers, the first %+v", len(all), all)
	}
	held := all[0].PublicNet.FloatingIPs
	if len(held) != 1 || held[0].ID != 10 {
		return fmt.Errorf("server one holds %+v", held)
	}
	return nil
}

func list(ctx context.Context, c *hcloud.Client) error {
	all, err := c.FloatingIP.All(ctx)
	if err != nil {
		return err
	}
	if len(all) != 2 || all[0].IP.String() != "192.0.2.10" || all[0].HomeLocation.Name == "" {
		return fmt.Errorf("have %+v", all)
	}
	return nil
}

func labelled(ctx context.Context, c *hcloud.Client) error {
	opts := hcloud.ServerListOpts{ListOpts: hcloud.ListOpts{LabelSelector: "role=gateway"}}
	found, err := c.Server.AllWithOpts(ctx, opts)
	if err != nil {
		return err
	}
	if len(found) != 1 || found[0].ID != 1 {
		return fmt.Errorf("have %+v", found)
	}
	return nil
}

func lookup(ctx context.Context, c *hcloud.Client) error {
	byName, _, err := c.FloatingIP.GetByName(ctx, "egress")
	if err != nil {
		return err
	}
	byID, _, err := c.FloatingIP.GetByID(ctx, 10)
	if err != nil {
		return err
	}
	if byName == nil || byID == nil || byName.ID != byID.ID || byID.Server.ID != 1 {
		return fmt.Errorf("by name %+v, by id %+v", byName, byID)
	}
	return nil
}

func missing(ctx context.Context, c *hcloud.Client) error {
	byName, _, err := c.FloatingIP.GetByName(ctx, "nobody")
	if err != nil || byName != nil {
		return fmt.Errorf("by name %+v, %w", byName, err)
	}
	byID, _, err := c.FloatingIP.GetByID(ctx, 4711)
	if err != nil || byID != nil {
		return fmt.Errorf("by id %+v, %w", byID, err)
	}
	return nil
}

func ratelimit(ctx context.Context, c *hcloud.Client) error {
	_, first, err := c.FloatingIP.GetByID(ctx, 10)
	if err != nil {
		return err
	}
	left := first.Meta.Ratelimit
	if left.Limit != 3600 || left.Remaining < 3500 || left.Remaining >= 3600 {
		return fmt.Errorf("have %+v", left)
	}
	return nil
}

func holder(ctx context.Context, c *hcloud.Client) (int64, error) {
	found, _, err := c.FloatingIP.GetByID(ctx, 10)
	if err != nil || found.Server == nil {
		return 0, err
	}
	return found.Server.ID, nil
}

func assign(ctx context.Context, c *hcloud.Client) error {
	action, _, err := c.FloatingIP.Assign(ctx, &hcloud.FloatingIP{ID: 10}, &hcloud.Server{ID: 2})
	if err != nil {
		return err
	}
	if before, err := holder(ctx, c); err != nil || before != 1 {
		return fmt.Errorf("while the action runs %d holds it, %w", before, err)
	}
	if err := c.Action.WaitFor(ctx, action); err != nil {
		return err
	}
	if after, err := holder(ctx, c); err != nil || after != 2 {
		return fmt.Errorf("after the action %d holds it, %w", after, err)
	}
	return nil
}

func locked(ctx context.Context, c *hcloud.Client) error {
	action, _, err := c.FloatingIP.Assign(ctx, &hcloud.FloatingIP{ID: 10}, &hcloud.Server{ID: 1})
	if err != nil {
		return err
	}
	_, _, second := c.FloatingIP.Assign(ctx, &hcloud.FloatingIP{ID: 11}, &hcloud.Server{ID: 1})
	if err := c.Action.WaitFor(ctx, action); err != nil {
		return err
	}
	return wants(hcloud.ErrorCodeLocked, second)
}

func unassign(ctx context.Context, c *hcloud.Client) error {
	action, _, err := c.FloatingIP.Unassign(ctx, &hcloud.FloatingIP{ID: 10})
	if err != nil {
		return err
	}
	if err := c.Action.WaitFor(ctx, action); err != nil {
		return err
	}
	if after, err := holder(ctx, c); err != nil || after != 0 {
		return fmt.Errorf("%d still holds it, %w", after, err)
	}
	return nil
}

func failing(ctx context.Context, c *hcloud.Client) error {
	fault := `{"method": "POST", "times": 1, "action": {"fail": "action_failed"}}`
	if err := sim(ctx, "POST", "faults", fault); err != nil {
		return err
	}
	action, _, err := c.FloatingIP.Assign(ctx, &hcloud.FloatingIP{ID: 10}, &hcloud.Server{ID: 2})
	if err != nil {
		return err
	}
	var failed hcloud.ActionError
	if err := c.Action.WaitFor(ctx, action); !errors.As(err, &failed) || failed.Code != "action_failed" {
		return fmt.Errorf("want an ActionError, have %v", err)
	}
	if after, err := holder(ctx, c); err != nil || after != 0 {
		return fmt.Errorf("%d holds it, %w", after, err)
	}
	return nil
}

func update(ctx context.Context, c *hcloud.Client) error {
	opts := hcloud.FloatingIPUpdateOpts{Labels: map[string]string{"term": "7"}, Description: "ours"}
	after, _, err := c.FloatingIP.Update(ctx, &hcloud.FloatingIP{ID: 10}, opts)
	if err != nil {
		return err
	}
	if after.Labels["term"] != "7" || after.Description != "ours" || after.Name != "egress" {
		return fmt.Errorf("have %+v", after)
	}
	return nil
}

func remove(ctx context.Context, c *hcloud.Client) error {
	action, _, err := c.FloatingIP.Assign(ctx, &hcloud.FloatingIP{ID: 10}, &hcloud.Server{ID: 1})
	if err != nil {
		return err
	}
	if err := c.Action.WaitFor(ctx, action); err != nil {
		return err
	}
	_, refused := c.FloatingIP.Delete(ctx, &hcloud.FloatingIP{ID: 10})
	if err := wants("must_be_unassigned", refused); err != nil {
		return err
	}
	if _, err := c.FloatingIP.Delete(ctx, &hcloud.FloatingIP{ID: 11}); err != nil {
		return err
	}
	left, err := c.FloatingIP.All(ctx)
	if err != nil || len(left) != 1 {
		return fmt.Errorf("have %+v, %w", left, err)
	}
	return nil
}
