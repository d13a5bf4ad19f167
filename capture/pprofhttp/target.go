package pprofhttp

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"

	"github.com/whylate/whylate/evidence"
)

// Target says where the pprof endpoint of a process is and how to get in.
type Target struct {
	// URL is http://host:port, https://host:port, or host:port alone, with the
	// path under which /debug/pprof/ is served, if there is one. A URL that
	// contains /debug/pprof, or whose path ends in /pprof, is the endpoint itself.
	// A user in it becomes basic authentication; a query goes with every request.
	URL string
	// Header is sent with every request.
	Header http.Header
	// CAFile is a PEM file with certificates to trust instead of the system's.
	CAFile string
	// CertFile and KeyFile are the PEM files of the client's certificate.
	CertFile, KeyFile string
	// Insecure accepts any certificate.
	Insecure bool
}

// AddHeader adds a header given as "Name: value", the form in which curl and
// the command line take it. The error does not repeat the value.
func (t *Target) AddHeader(line string) error {
	name, value, ok := strings.Cut(line, ":")
	name = strings.TrimSpace(name)
	if !ok || name == "" || strings.ContainsAny(name, " \t\r\n") || strings.ContainsAny(value, "\r\n") {
		return &Error{Cause: "a header must have the form 'Name: value'", Advice: "--header 'Authorization: Bearer TOKEN'"}
	}
	if t.Header == nil {
		t.Header = make(http.Header)
	}
	t.Header.Add(name, strings.TrimSpace(value))
	return nil
}

const endpointPath = "/debug/pprof"

// endpoint returns the URL of the pprof endpoint without a slash at its end.
// It may hold credentials: never print it.
func (t Target) endpoint() (*url.URL, error) {
	bad := &Error{
		Cause:  "the target is not a URL of a pprof endpoint",
		Advice: "http://HOST:PORT, or http://HOST:PORT/PREFIX if /debug/pprof/ is served below a prefix",
	}
	raw := t.URL
	if strings.HasPrefix(raw, ":") {
		raw = "localhost" + raw
	}
	if !strings.Contains(raw, "://") {
		raw = "http://" + raw
	}
	u, err := url.Parse(raw) // the error repeats the URL, password included
	if err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, bad
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return nil, &Error{Cause: port + " is no port: they go from 1 to 65535", Advice: adviceListen}
		}
	}
	query := u.Query()
	for _, own := range []string{"seconds", "debug", "gc"} {
		query.Del(own)
	}
	return &url.URL{Scheme: u.Scheme, User: u.User, Host: u.Host, Path: endpointOf(u.Path), RawQuery: query.Encode()}, nil
}

// endpointOf returns the path of the endpoint for the path of a target.
func endpointOf(path string) string {
	if i := strings.LastIndex(path+"/", endpointPath+"/"); i >= 0 {
		return path[:i] + endpointPath
	}
	path = strings.TrimRight(path, "/")
	if strings.HasSuffix(path, "/pprof") {
		return path
	}
	return path + endpointPath
}

// transport returns the HTTP transport for the target.
func (t Target) transport() (*http.Transport, error) {
	config := &tls.Config{InsecureSkipVerify: t.Insecure}
	if t.CAFile != "" {
		pem, err := os.ReadFile(t.CAFile)
		if err != nil {
			return nil, fmt.Errorf("read the CA file: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("read the CA file %s: no certificate in it", t.CAFile)
		}
	}
	if t.CertFile != "" || t.KeyFile != "" {
		pair, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("read the client certificate: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return &http.Transport{
		Proxy:           http.ProxyFromEnvironment,
		TLSClientConfig: config,
		// A trace is to arrive as the target writes it: compressing it would cost
		// the target CPU time.
		DisableCompression: true,
	}, nil
}

const maxRedirects = 3

// errRedirect is a redirect that was not followed; to is safe to print.
type errRedirect struct{ to string }

func (e *errRedirect) Error() string { return "redirected to " + e.to }

// sameTarget follows redirects on the same host, also from http to https, and
// no others: headers with credentials must not go anywhere else.
func sameTarget(next *http.Request, via []*http.Request) error {
	first := via[0].URL
	if len(via) > maxRedirects {
		return errors.New("too many redirects")
	}
	if next.URL.Hostname() != first.Hostname() || first.Scheme == "https" && next.URL.Scheme != "https" {
		return &errRedirect{to: evidence.CleanURL(next.URL.String())}
	}
	return nil
}
