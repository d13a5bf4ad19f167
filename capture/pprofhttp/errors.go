package pprofhttp

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode"

	"github.com/whylate/whylate/evidence"
)

// What an *Error can wrap, for callers that test.
var (
	// ErrUnreachable: nothing answers at the address.
	ErrUnreachable = errors.New("unreachable")
	// ErrNoEndpoint: something answers, and it is not net/http/pprof.
	ErrNoEndpoint = errors.New("no pprof endpoint")
	// ErrDenied: the endpoint wants credentials, or others.
	ErrDenied = errors.New("access denied")
	// ErrTracing: an execution trace of the target is running already.
	ErrTracing = errors.New("tracing already enabled")
	// ErrOldGo: the target was built with Go 1.21 or older.
	ErrOldGo = errors.New("the target's Go is too old")
)

// Refusals that the recording works around; they do not leave the package.
var (
	errNotFound     = errors.New("not found")
	errWriteTimeout = errors.New("duration exceeds the server's WriteTimeout")
	errProfiling    = errors.New("CPU profiling already in use")
	errNobody       = errors.New("nobody is behind the proxy")
)

// Error is a failure with its remedy. Neither text holds credentials.
type Error struct {
	// Cause is one line.
	Cause string
	// Advice is what to paste: most often one line. If it begins with "--" it is what to
	// add to the command that failed.
	Advice string
	// Target, if not empty, is the target to give instead.
	Target string
	// Err is what happened, or nil.
	Err error
}

// Error returns the cause and the advice on lines of their own.
func (e *Error) Error() string {
	if advice := cmp.Or(e.Advice, e.Target); advice != "" {
		return e.Cause + "\n" + advice
	}
	return e.Cause
}

func (e *Error) Unwrap() error { return e.Err }

const (
	adviceRegister = `in the program:  import _ "net/http/pprof"` + "\n" +
		`with a mux of its own:  mux.HandleFunc("/debug/pprof/", pprof.Index); mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline); mux.HandleFunc("/debug/pprof/profile", pprof.Profile); mux.HandleFunc("/debug/pprof/trace", pprof.Trace)`
	adviceHeader = "--header 'Authorization: Bearer TOKEN'"
	adviceEnded  = "dmesg | grep -i 'killed process'    # its log, or that of who started it again, says why it ended; in Kubernetes: kubectl describe pod NAME"
	adviceListen = "ss -ltnp    # which ports listen here; in Kubernetes: kubectl port-forward pod/NAME 6060"
)

// withPort is the host and port that was asked: nobody who left the port out knows which one it was.
func withPort(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Host
	case u.Scheme == "https":
		return u.Host + ":443"
	}
	return u.Host + ":80"
}

// unreachable explains why a request to host got no answer at all.
func unreachable(err error, u *url.URL, waited time.Duration) error {
	var redirect *errRedirect
	if errors.As(err, &redirect) {
		return &Error{
			Cause:  fmt.Sprintf("%s redirects to %s, which looks like a sign-in page", u.Host, redirect.to),
			Advice: adviceHeader,
			Err:    ErrDenied,
		}
	}
	if e := tlsFailure(err, u); e != nil {
		e.Err = fmt.Errorf("%w: %w", ErrUnreachable, bare(err))
		return e
	}
	e := &Error{Err: fmt.Errorf("%w: %w", ErrUnreachable, bare(err))}
	var dns *net.DNSError
	var timeout net.Error
	switch {
	case errors.Is(err, syscall.ECONNREFUSED) || strings.Contains(err.Error(), "refused"):
		e.Cause, e.Advice = "nothing listens on "+withPort(u), adviceListen
	case errors.As(err, &dns):
		e.Cause, e.Advice = "there is no host named "+u.Hostname(), "getent hosts "+u.Hostname()
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		e.Cause = fmt.Sprintf("no answer from %s within %s", u.Host, waited.Round(time.Millisecond))
		e.Advice = "curl -m 5 " + Shell(evidence.CleanURL(u.String())+"/cmdline")
	case strings.Contains(err.Error(), "malformed HTTP"), // the type is not exported
		strings.Contains(err.Error(), "readLoopPeekFailLocked: %!w(<nil>)"): // it spoke before it was asked
		e.Cause, e.Advice = u.Host+" does not speak HTTP: something else listens there", adviceListen
	case lostConnection(err):
		e.Cause, e.Advice = u.Host+" closed the connection without an answer", "curl -m 5 "+Shell(evidence.CleanURL(u.String())+"/cmdline")
	default:
		e.Cause, e.Advice = fmt.Sprintf("no answer from %s: %s", u.Host, plain(err)), "curl -m 5 "+Shell(evidence.CleanURL(u.String())+"/cmdline")
	}
	return e
}

// tlsFailure explains err if it is a failure of TLS; else it returns nil.
func tlsFailure(err error, u *url.URL) *Error {
	var record tls.RecordHeaderError
	var verify *tls.CertificateVerificationError
	var authority x509.UnknownAuthorityError
	switch {
	case errors.Is(err, http.ErrSchemeMismatch), errors.As(err, &record):
		return &Error{Cause: u.Host + " speaks plain HTTP, the target says https", Target: withScheme(u, "http")}
	case strings.Contains(err.Error(), `malformed HTTP response "\x15\x03`): // a TLS alert
		return &Error{Cause: u.Host + " speaks HTTPS, the target says http", Target: withScheme(u, "https")}
	case errors.As(err, &verify), errors.As(err, &authority):
		return &Error{
			Cause:  fmt.Sprintf("the certificate of %s is not trusted: %s", u.Host, plain(err)),
			Advice: "--ca-file CA.pem    # or --insecure, which accepts any certificate",
		}
	case strings.Contains(err.Error(), "remote error: tls:"): // the type is not exported
		return &Error{
			Cause:  fmt.Sprintf("%s refused the TLS connection: %s", u.Host, plain(err)),
			Advice: "--cert CLIENT.pem --key CLIENT-KEY.pem    # if it wants a client certificate",
		}
	}
	return nil
}

// withScheme returns the target to paste if only the scheme was wrong.
func withScheme(u *url.URL, scheme string) string {
	other := *u
	other.Scheme = scheme
	return strings.TrimSuffix(evidence.CleanURL(other.String()), endpointPath)
}

// maxErrorBody bounds what is read of an answer that is not the expected one.
const maxErrorBody = 4 << 10

// statusOf is a status in the words of HTTP: those of the server are its own.
func statusOf(code int) string {
	return strings.TrimSpace(strconv.Itoa(code) + " " + http.StatusText(code))
}

// refused explains an answer with a status other than 200. It reads from the
// body and does not close it.
func refused(resp *http.Response, name string) error {
	head, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody)) // what did arrive is enough
	said := firstLine(head)
	host, status := resp.Request.URL.Host, statusOf(resp.StatusCode)
	switch {
	case strings.Contains(said, "WriteTimeout"):
		return errWriteTimeout
	case strings.Contains(said, "Could not enable CPU profiling"):
		return errProfiling
	case strings.Contains(said, "Could not enable tracing"):
		return &Error{
			Cause: "somebody else is recording an execution trace of this process (a continuous profiler, another whylate?), and only one can run at a time: try again when that has ended",
			Err:   ErrTracing,
		}
	case strings.Contains(said, "HTTP request to an HTTPS server"), strings.Contains(said, "HTTP request was sent to HTTPS port"):
		asked := *resp.Request.URL
		asked.Path = strings.TrimSuffix(asked.Path, "/"+name)
		return &Error{
			Cause:  host + " speaks HTTPS, the target says http",
			Target: withScheme(&asked, "https"),
			Err:    ErrUnreachable,
		}
	}
	switch resp.StatusCode {
	case http.StatusNotFound, http.StatusMethodNotAllowed:
		return &Error{
			Cause:  fmt.Sprintf("%s answers, but has no %s (%s)", host, resp.Request.URL.Path, status),
			Advice: adviceRegister,
			Err:    fmt.Errorf("%w: %w", ErrNoEndpoint, errNotFound),
		}
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusProxyAuthRequired:
		return &Error{
			Cause:  fmt.Sprintf("%s does not let us in (%s)", host, status),
			Advice: adviceHeader,
			Err:    ErrDenied,
		}
	}
	err, cause := ErrNoEndpoint, fmt.Sprintf("%s answered %s", host, status)
	switch resp.StatusCode {
	case http.StatusBadGateway, http.StatusGatewayTimeout: // 503 is what a service says, too, that has too much to do
		err = fmt.Errorf("%w: %w", ErrNoEndpoint, errNobody)
	}
	if said != "" && !looksLikePage(head) {
		cause += ": " + said
	}
	return &Error{
		Cause:  cause,
		Advice: "curl -m 5 " + Shell(evidence.CleanURL(resp.Request.URL.String())),
		Err:    err,
	}
}

// otherAnswer explains a body that is not what the endpoint sends.
func otherAnswer(u *url.URL, head []byte) error {
	return &Error{
		Cause:  fmt.Sprintf("%s is not a pprof endpoint: it answers with %s", evidence.CleanURL(u.String()), evidence.Describe(head)),
		Advice: adviceRegister,
		Err:    ErrNoEndpoint,
	}
}

// looksLikePage reports whether a body is HTML or JSON.
func looksLikePage(body []byte) bool {
	b := bytes.TrimSpace(body)
	return len(b) > 0 && (b[0] == '<' || b[0] == '{' || b[0] == '[')
}

// lostConnection reports whether err says that the other side went away.
func lostConnection(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// bare takes the URL off an error of net/http: it may hold credentials.
func bare(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

func plain(err error) string { return firstLine([]byte(bare(err).Error())) }

// firstLine makes text from the network safe to print: the first line, at most
// 200 bytes, without control characters (C1 ones too), bidirectional controls or
// anything else that a terminal does not show as itself.
func firstLine(b []byte) string {
	line, _, _ := strings.Cut(strings.TrimSpace(string(b)), "\n")
	if len(line) > 200 {
		line = line[:200] + "..."
	}
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) || r == '\uFFFD' {
			return -1
		}
		return r
	}, line)
}

// Shell quotes a word for a POSIX shell.
func Shell(s string) string {
	if strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789:/._-%") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
