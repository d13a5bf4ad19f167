package main

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/whylate/whylate/incidents/score"
	"github.com/whylate/whylate/load"
)

// versitygw is an S3 server whose objects are files. Clients get and put small
// objects by signed URLs.
type versitygw struct {
	peer  []string // arguments of the server that has the objects instead of files; then clients only get
	log   []string // arguments of the reader of its access log; nil without one
	fsync []string // arguments of slowfs, which its files are on; nil without it
	gets  bool     // clients put no objects
	lists float64  // how many requests list many objects, for 100 others
	large float64  // how many put a large object, for 100 others
}

func (versitygw) source() source { return source{folder: "versitygw", main: "tool"} }

const (
	access, secret, region = "shop", "only-for-the-loopback", "us-east-1"
	bucket                 = "pictures"
	// objects are of objectSize each; largeSize is one that costs more to sum up.
	objects, objectSize, largeSize = 64, 4 << 10, 8 << 20
	// listed is how many more objects there are in a folder: one page of a list.
	listed = 1000
)

// start leaves the certificates of the host's own account at AWS out.
func (v versitygw) start(ctx context.Context, rig rig) (_ *service, err error) {
	addrs, err := addresses(3)
	if err != nil {
		return nil, err
	}
	s := &service{pprof: "http://" + addrs[1]}
	defer func() {
		if err != nil {
			s.stop()
		}
	}()
	args := []string{"--access", access, "--secret", secret, "--region", region, "--port", addrs[0], "--pprof", addrs[1],
		"--health", "/health", "--keep-alive", "--quiet"}
	if v.log != nil {
		pipe, err := s.logPipe(ctx, rig, v.log)
		if err != nil {
			return nil, err
		}
		args = append(args, "--access-log", pipe)
	}
	if v.peer != nil {
		s.peer, err = s.start(rig.dir, filepath.Join(rig.bin, "peer"), []string{"GOMAXPROCS=1"}, append(slices.Clip(v.peer), "-listen", addrs[2])...)
		if err != nil {
			return nil, err
		}
		if err := s.peer.ready(ctx, "http://"+addrs[2]); err != nil {
			return nil, err
		}
		args = append(args, "s3", "--access", access, "--secret", secret, "--endpoint", "http://"+addrs[2], "--region", region, "--use-path-style")
	} else {
		disk, err := s.disk(ctx, rig, v.fsync)
		if err != nil {
			return nil, err
		}
		args = append(args, "posix", "--disableotmp", disk)
	}
	s.program, err = s.start(rig.dir, filepath.Join(rig.bin, "versitygw"), []string{gomaxprocs, "AWS_CA_BUNDLE="}, args...)
	if err != nil {
		return nil, err
	}
	if err := s.program.ready(ctx, "http://"+addrs[0]+"/health"); err != nil {
		return nil, err
	}
	if err := v.requests(ctx, s, addrs[0]); err != nil {
		return nil, err
	}
	return s, s.answered(ctx)
}

// requests are what the clients ask.
func (v versitygw) requests(ctx context.Context, s *service, host string) error {
	object := func(i int) string { return fmt.Sprintf("/%s/small/%d", bucket, i) }
	if v.peer != nil {
		s.targets = []load.Target{signed(http.MethodGet, host, object(0), nil)}
		return nil
	}
	small := bytes.Repeat([]byte("picture"), objectSize/7)
	once := []load.Target{signed(http.MethodPut, host, "/"+bucket, nil)}
	for i := range objects {
		get, put := signed(http.MethodGet, host, object(i), nil), signed(http.MethodPut, host, object(i), nil)
		put.Body = small
		get.Weight, put.Weight = 75/float64(objects), 25/float64(objects)
		if s.targets = append(s.targets, get); !v.gets {
			s.targets = append(s.targets, put)
		}
		once = append(once, put)
	}
	if v.large > 0 {
		put := signed(http.MethodPut, host, "/"+bucket+"/large", nil)
		put.Body, put.Weight = bytes.Repeat([]byte("picture"), largeSize/7), v.large
		s.targets = append(s.targets, put)
	}
	if v.lists > 0 {
		for i := range listed {
			put := signed(http.MethodPut, host, fmt.Sprintf("/%s/many/%d", bucket, i), nil)
			put.Body = small[:7]
			once = append(once, put)
		}
		list := signed(http.MethodGet, host, "/"+bucket, url.Values{"list-type": {"2"}, "prefix": {"many/"}})
		list.Weight = v.lists
		s.targets = append(s.targets, list)
	}
	for _, t := range once {
		if _, err := ask(ctx, http.DefaultClient, t); err != nil {
			return err
		}
	}
	return nil
}

// signed is a request whose URL holds a signature for an hour
// (docs.aws.amazon.com/AmazonS3/latest/API/sigv4-query-string-auth.html).
func signed(method, host, path string, query url.Values) load.Target {
	at := time.Now().UTC()
	date, second := at.Format("20060102"), at.Format("20060102T150405Z")
	scope := strings.Join([]string{date, region, "s3", "aws4_request"}, "/")
	q := url.Values{
		"X-Amz-Algorithm": {"AWS4-HMAC-SHA256"}, "X-Amz-Credential": {access + "/" + scope},
		"X-Amz-Date": {second}, "X-Amz-Expires": {"3600"}, "X-Amz-SignedHeaders": {"host"},
	}
	for name, values := range query {
		q[name] = values
	}
	canonical := strings.Join([]string{method, path, q.Encode(), "host:" + host, "", "host", "UNSIGNED-PAYLOAD"}, "\n")
	sum := sha256.Sum256([]byte(canonical))
	key := []byte("AWS4" + secret)
	for _, part := range []string{date, region, "s3", "aws4_request",
		strings.Join([]string{"AWS4-HMAC-SHA256", second, scope, hex.EncodeToString(sum[:])}, "\n")} {
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(part))
		key = mac.Sum(nil)
	}
	return load.Target{Method: method, URL: "http://" + host + path + "?" + q.Encode() + "&X-Amz-Signature=" + hex.EncodeToString(key)}
}

const versityRate = 150

// lateOpens make some opens of files take longer, noLateOpens none through the same
// file system.
var (
	lateOpens   = []string{"-delay", fsyncTime.String(), "-share", "0", "-opens", fsyncShare}
	noLateOpens = noLateSyncs
)

var versityTrials = []trial{
	{name: "versitygw-steady", program: versitygw{}, rate: versityRate, lag: busyLag, beside: contention},
	{
		name: "versitygw-disk", program: versitygw{gets: true, fsync: lateOpens}, rate: versityRate, lag: busyLag, felt: fsyncTime / 2,
		planted: one(score.Planted{Cause: "slow-disk"}, func(t *trial) { t.program = versitygw{gets: true, fsync: noLateOpens} }),
		rise:    3, beside: contention,
	},
	{
		name: "versitygw-upstream", program: versitygw{peer: lateReplies}, rate: versityRate, lag: busyLag, felt: slowTime / 2,
		planted: one(score.Planted{Cause: "slow-dependency"}, func(t *trial) { t.program = versitygw{peer: evenReplies} }),
		rise:    3, beside: contention,
	},
	{
		name: "versitygw-log", program: versitygw{log: []string{"-pause", "120ms", "-every", "1500ms"}}, rate: versityRate, lag: busyLag,
		planted: one(score.Planted{Cause: "sync-logging"}, func(t *trial) { t.program = versitygw{log: []string{}} }),
		rise:    3, beside: contention,
	},
	{
		name: "versitygw-lists", program: versitygw{lists: 2}, rate: versityRate, lag: busyLag,
		planted: one(score.Planted{Cause: "expensive-request"}, func(t *trial) { t.program = versitygw{} }),
		rise:    3, beside: contention,
	},
	{
		name: "versitygw-large", program: versitygw{large: 2}, rate: versityRate, lag: busyLag,
		planted: one(score.Planted{Cause: "expensive-request"}, func(t *trial) { t.program = versitygw{} }),
		rise:    3, beside: contention,
	},
	limited(trial{name: "versitygw-quota", program: versitygw{}, rate: versityRate, bursts: load.Bursts{Size: 50}, rise: 1.5}),
	crowded(trial{name: "versitygw-crowd", program: versitygw{}, rate: versityRate, rise: 1.5}),
}
