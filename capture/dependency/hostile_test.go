package dependency

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/whylate/whylate/capture/dependency/dependencytest"
)

// impostor lets a connection log in as postgres does, and then answers each question with
// do.
func impostor(t *testing.T, do func(b *pgproto3.Backend) error) (dsn string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				b := pgproto3.NewBackend(c, c)
				if _, err := b.ReceiveStartupMessage(); err != nil {
					return
				}
				b.Send(&pgproto3.AuthenticationOk{})
				b.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
				for b.Flush() == nil {
					if _, err := b.Receive(); err != nil || do(b) != nil {
						return
					}
				}
			}()
		}
	}()
	return "postgres://me@" + l.Addr().String() + "/db?sslmode=disable"
}

func TestAnImpostorOfPostgresIsBounded(t *testing.T) {
	column := &pgproto3.RowDescription{Fields: []pgproto3.FieldDescription{{Name: []byte("x")}}}
	row := func(values ...string) *pgproto3.DataRow {
		r := &pgproto3.DataRow{}
		for _, v := range values {
			r.Values = append(r.Values, []byte(v))
		}
		return r
	}
	for name, c := range map[string]struct {
		do   func(b *pgproto3.Backend) error
		want string // or, of one without end, that it took too long
	}{
		"rows without end": {func(b *pgproto3.Backend) error {
			b.Send(column)
			for big := row(strings.Repeat("x", 100_000)); ; b.Send(big) {
				if err := b.Flush(); err != nil {
					return err
				}
			}
		}, "longer than any"},
		"settings without end": {func(b *pgproto3.Backend) error {
			for i := 0; ; i++ {
				b.Send(&pgproto3.ParameterStatus{Name: strconv.Itoa(i), Value: strings.Repeat("x", 100_000)})
				if err := b.Flush(); err != nil {
					return err
				}
			}
		}, "longer than any"},
		"a row of another shape": {func(b *pgproto3.Backend) error {
			b.Send(column)
			b.Send(row("1"))
			b.Send(&pgproto3.CommandComplete{CommandTag: []byte("SELECT 1")})
			b.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
			return nil
		}, "does not speak"},
		"an error full of control characters": {func(b *pgproto3.Backend) error {
			b.Send(&pgproto3.ErrorResponse{Severity: "ERROR", Code: "42P01", Message: "\x1b[31m" + strings.Repeat("long ", 1000)})
			b.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
			return nil
		}, "it answers: [31mlong long"},
	} {
		t.Run(name, func(t *testing.T) {
			target, err := NewPostgres(impostor(t, c.do))
			if err != nil {
				t.Fatal(err)
			}
			r := Start(t.Context(), []Target{target})
			var file bytes.Buffer
			got, err := r.Stop(&file)
			if err != nil {
				t.Fatal(err)
			}
			s := got[0]
			if s.Answered() || len(s.Missing) != 1 || len(s.Missing[0].Why) > 2*MaxText {
				t.Fatalf("%+v", s.Missing)
			}
			late := strings.HasSuffix(name, "without end") && strings.Contains(s.Missing[0].Why, "no answer within")
			if !late && !strings.Contains(s.Missing[0].Why, c.want) {
				t.Errorf("%q, want %q", s.Missing[0].Why, c.want)
			}
			if _, err := Read(&file); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestAConnectionGivesABoundedNumberOfBytes(t *testing.T) {
	here, there := net.Pipe()
	defer here.Close()
	go func() {
		for {
			if _, err := there.Write(make([]byte, 1000)); err != nil {
				return
			}
		}
	}()
	n, err := io.Copy(io.Discard, &bounded{Conn: here, left: 4500})
	if n != 4000 || !errors.Is(err, errTooLong) {
		t.Errorf("%d bytes, %v", n, err)
	}
}

func TestAPostgresThatRefusesTheLoginSaysSo(t *testing.T) {
	hba, err := os.CreateTemp("", "whylate-hba-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Remove(hba.Name()) })
	if _, err := hba.WriteString("host all postgres 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 scram-sha-256\n"); err != nil {
		t.Fatal(err)
	}
	if err := hba.Chmod(0o644); err != nil { // postgres may run as another user
		t.Fatal(err)
	}
	s := dependencytest.Postgres(t, "hba_file="+hba.Name())
	s.Exec("CREATE USER reader PASSWORD 'right'")
	for password, answers := range map[string]bool{"right": true, "wrong": false} {
		target, err := NewPostgres(strings.Replace(s.DSN, "postgres@", "reader:"+password+"@", 1))
		if err != nil {
			t.Fatal(err)
		}
		var file bytes.Buffer
		got, err := Start(t.Context(), []Target{target}).Stop(&file)
		if err != nil || got[0].Answered() != answers {
			t.Errorf("%s: %+v, %v", password, got, err)
		}
		if m := got[0].Missing[0]; !answers && (!strings.Contains(m.Why, "refuses the login") || !strings.Contains(m.Command, "PGPASSWORD")) {
			t.Errorf("%+v", m)
		}
	}
}

// selfSigned writes a certificate for 127.0.0.1 and its key.
func selfSigned(t *testing.T) (cert, key string, roots *x509.CertPool) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &k.PublicKey, k)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for file, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	roots = x509.NewCertPool()
	roots.AddCert(parsed)
	return cert, key, roots
}

func TestRedisIsAskedThroughTLSOnlyIfItsCertificateIsTrusted(t *testing.T) {
	cert, key, roots := selfSigned(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().(*net.TCPAddr)
	l.Close()
	dependencytest.Redis(t, "--tls-port", strconv.Itoa(addr.Port), "--tls-cert-file", cert, "--tls-key-file", key, "--tls-ca-cert-file", cert, "--tls-auth-clients", "no")
	for name, c := range map[string]struct {
		roots *x509.CertPool
		want  string
	}{"trusted": {roots, ""}, "not trusted": {x509.NewCertPool(), "certificate"}} {
		t.Run(name, func(t *testing.T) {
			target, err := NewRedis("rediss://" + addr.String())
			if err != nil {
				t.Fatal(err)
			}
			a := target.start().(*redisAsker)
			a.t.tls.RootCAs = c.roots
			s := &Server{Schema: Schema, Kind: Redis}
			ctx, cancel := context.WithTimeout(t.Context(), phaseTimeout)
			defer cancel()
			if err = a.start(ctx, s); err == nil {
				err = a.finish(ctx, s)
			}
			if c.want == "" && (err != nil || !s.Answered()) || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%v, %+v", err, s)
			}
		})
	}
}
