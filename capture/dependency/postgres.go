package dependency

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
)

// What one connection to something that says it is postgres may give.
const (
	maxMessage = 1 << 20
	// maxConnection holds the counters of maxStatements at 100 bytes, twice, and 300
	// looks at the sessions.
	maxConnection = 16 << 20
	// maxStatements is four times what pg_stat_statements keeps by default.
	maxStatements = 20_000
	// maxTexts is of how many statements the text is asked for.
	maxTexts = 2 * MaxCalls
)

var errNotPostgres = errors.New("what answers there does not speak postgres's protocol")

// mark stands in every question, so that pg_stat_statements does not make our own
// look like the service's.
const (
	mark     = "/* whylate */"
	readOnly = "BEGIN READ ONLY"
)

// NewPostgres reads a connection string as libpq does: a URL or key=value pairs. What
// is not in it comes from libpq's environment variables (PGPASSWORD, PGPASSFILE
// and so on) and files.
func NewPostgres(dsn string) (Target, error) {
	c, err := pgconn.ParseConfig(dsn)
	if err != nil {
		// The error holds the string and so perhaps the password.
		return Target{}, errors.New("this is no connection string of a postgres: write postgres://user@host:5432/database, and the password into the environment variable PGPASSWORD or ~/.pgpass")
	}
	c.ConnectTimeout = askTimeout
	c.RuntimeParams["application_name"] = "whylate"
	c.OnNotice = nil
	c.BuildFrontend = func(r io.Reader, w io.Writer) *pgproto3.Frontend {
		f := pgproto3.NewFrontend(r, w)
		f.SetMaxBodyLen(maxMessage)
		return f
	}
	dial := c.DialFunc
	c.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return &bounded{Conn: conn, left: maxConnection}, nil
	}
	address := net.JoinHostPort(c.Host, strconv.Itoa(int(c.Port)))
	if strings.HasPrefix(c.Host, "/") {
		address = c.Host
	}
	return Target{kind: Postgres, address: short(address, MaxText), secret: c.Password, start: func() asker { return &postgresAsker{config: c} }}, nil
}

// bounded is a connection that gives a bounded number of bytes.
type bounded struct {
	net.Conn
	left int
}

func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.Conn.Read(p)
	if b.left -= n; b.left < 0 {
		return 0, errTooLong
	}
	return n, err
}

// executed is what postgres counted of one statement, times in ms.
type executed struct {
	calls     int64
	total, mx float64
}

// postgresAsker asks one postgres before, during and after.
type postgresAsker struct {
	config *pgconn.Config
	conn   *pgconn.PgConn // nil if it is broken

	at         time.Time
	postmaster string // when it started
	schema     string // of pg_stat_statements, quoted; "" without it
	mayRead    bool   // other users' sessions and statements
	statements map[string]executed
	cut        bool // there were more statements than asked for
	waits      map[[2]string]*Wait
}

func (a *postgresAsker) connect(ctx context.Context, s *Server) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	conn, err := pgconn.ConnectConfig(ctx, a.config)
	if err != nil {
		return err
	}
	a.conn = conn
	if addr := conn.Conn().RemoteAddr(); addr.Network() == "tcp" {
		s.Peer = addr.String()
	}
	return nil
}

func (a *postgresAsker) close() {
	if a.conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout/4)
	defer cancel()
	_ = a.conn.Close(ctx) // nothing is lost with it
	a.conn = nil
}

// ask sends one SELECT in a transaction that may only read, and which postgres itself
// ends after a second. Everything goes in one message and nothing outlives the
// transaction, so that this holds through a pooler, too.
func (a *postgresAsker) ask(ctx context.Context, s *Server, query string) (rows [][]string, err error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	began := time.Now()
	defer func() {
		s.Asked++
		s.AskedNS += time.Since(began).Nanoseconds()
	}()
	results := a.conn.Exec(ctx, fmt.Sprintf(readOnly+"; SET LOCAL statement_timeout = %d; %s; COMMIT", askTimeout.Milliseconds(), query))
	for results.NextResult() {
		r := results.ResultReader()
		for r.NextRow() {
			if len(rows) > maxStatements {
				continue // postgres itself keeps to the LIMIT
			}
			var row []string
			for _, v := range r.Values() {
				row = append(row, string(v))
			}
			rows = append(rows, row)
		}
		_, _ = r.Close() // its error is the one of results
	}
	if err := results.Close(); err != nil {
		a.close() // also after a refusal: the transaction would stay open
		return nil, err
	}
	return rows, nil
}

// again asks on the connection that there is, or on a new one.
func (a *postgresAsker) again(ctx context.Context, s *Server, query string) ([][]string, error) {
	if a.conn == nil || a.conn.IsClosed() {
		if err := a.connect(ctx, s); err != nil {
			return nil, err
		}
	}
	return a.ask(ctx, s, query)
}

// firstPostgres is the oldest version with today's names in pg_stat_statements.
const firstPostgres = 130000

func (a *postgresAsker) start(ctx context.Context, s *Server) error {
	a.waits = map[[2]string]*Wait{}
	rows, err := a.again(ctx, s, `SELECT `+mark+` current_setting('server_version'), current_setting('server_version_num'),
		pg_postmaster_start_time()::text, pg_has_role(current_user, 'pg_read_all_stats', 'USAGE'), current_user, current_database()`)
	if err != nil {
		a.close()
		return err
	}
	if len(rows) != 1 || len(rows[0]) != 6 {
		a.close()
		return errNotPostgres
	}
	row := rows[0]
	s.Version, a.postmaster = short(row[0], 60), row[2]
	a.mayRead = row[3] == "t"
	if !a.mayRead {
		s.miss(OtherUsers, "the user may not see them", "psql -c 'GRANT pg_monitor TO NAME'")
	}
	a.at = time.Now()
	if n, err := strconv.Atoi(row[1]); err != nil || n < firstPostgres {
		s.miss("pg_stat_statements", "postgres "+s.Version+" is too old: 13 is the first one whose statistics are read", "")
		return nil
	}
	if err := a.extension(ctx, s); err != nil {
		a.close()
		return err
	}
	return nil
}

// extension finds pg_stat_statements and reads it for the first time.
func (a *postgresAsker) extension(ctx context.Context, s *Server) error {
	rows, err := a.again(ctx, s, `SELECT `+mark+` quote_ident(n.nspname) FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'pg_stat_statements'`)
	if err != nil {
		return err
	}
	if len(rows) != 1 || len(rows[0]) != 1 || len(rows[0][0]) > 200 {
		s.miss("pg_stat_statements", "the extension is not installed in this database; it also has to stand in shared_preload_libraries, which takes a restart", "psql -c 'CREATE EXTENSION pg_stat_statements'")
		return nil
	}
	a.schema = rows[0][0]
	a.statements, err = a.count(ctx, s)
	var refused *pgconn.PgError
	switch {
	case errors.As(err, &refused):
		a.schema = ""
		text, command := postgresWhy(err)
		s.miss("pg_stat_statements", text, command)
		return nil
	case err != nil:
		return err
	}
	a.at = time.Now()
	a.cut = len(a.statements) >= maxStatements
	return nil
}

// count reads the counters of every statement, without the texts, which would have to
// be read from a file.
func (a *postgresAsker) count(ctx context.Context, s *Server) (map[string]executed, error) {
	rows, err := a.again(ctx, s, fmt.Sprintf(`SELECT %s coalesce(queryid::text, ''), sum(calls)::bigint, sum(total_exec_time), max(max_exec_time)
		FROM %s.pg_stat_statements(false) GROUP BY 1 ORDER BY 3 DESC LIMIT %d`, mark, a.schema, maxStatements))
	if err != nil {
		return nil, err
	}
	out := map[string]executed{}
	for _, r := range rows {
		if len(r) != 4 {
			continue
		}
		calls, err1 := strconv.ParseInt(r[1], 10, 64)
		total, err2 := strconv.ParseFloat(r[2], 64)
		mx, err3 := strconv.ParseFloat(r[3], 64)
		if _, err := strconv.ParseInt(r[0], 10, 64); err != nil && r[0] != "" || errors.Join(err1, err2, err3) != nil {
			continue
		}
		out[r[0]] = executed{clamp(calls), total, mx}
	}
	return out, nil
}

// during looks at what active sessions wait for.
func (a *postgresAsker) during(ctx context.Context, s *Server) {
	if a.conn == nil || a.conn.IsClosed() {
		return // it refused a look, or ended: one line in the report, from finish
	}
	rows, err := a.ask(ctx, s, fmt.Sprintf(`SELECT %s wait_event_type, wait_event, count(*) FROM pg_stat_activity
		WHERE state = 'active' AND backend_type = 'client backend' AND pid <> pg_backend_pid() AND wait_event_type IS NOT NULL
		GROUP BY 1, 2 ORDER BY 3 DESC LIMIT %d`, mark, MaxWaits))
	if err != nil && ctx.Err() != nil {
		return // the window ended first
	}
	if err != nil {
		s.refused("waits of sessions", err)
		return
	}
	s.Looks++
	for _, r := range rows {
		if len(r) != 3 || len(a.waits) >= MaxWaits {
			continue
		}
		key := [2]string{word(r[0]), word(r[1])}
		n, err := strconv.Atoi(r[2])
		if err != nil || n <= 0 {
			continue
		}
		w := a.waits[key]
		if w == nil {
			w = &Wait{Type: key[0], Event: key[1]}
			a.waits[key] = w
		}
		w.Looks++
		w.Most = int(clamp(int64(max(w.Most, n))))
	}
}

func (a *postgresAsker) finish(ctx context.Context, s *Server) error {
	defer a.close()
	broke := a.conn == nil || a.conn.IsClosed()
	now := time.Now()
	var after map[string]executed
	if a.schema != "" {
		var err error
		if after, err = a.count(ctx, s); err != nil && !broke {
			after, err = a.count(ctx, s) // the connection broke in the window; a new one
		}
		if err != nil {
			return err
		}
	}
	rows, err := a.again(ctx, s, `SELECT `+mark+` pg_postmaster_start_time()::text`)
	if err != nil && a.schema == "" && !broke {
		rows, err = a.again(ctx, s, `SELECT `+mark+` pg_postmaster_start_time()::text`)
	}
	if err != nil {
		return err
	}
	s.Restarted = len(rows) != 1 || len(rows[0]) != 1 || rows[0][0] != a.postmaster
	s.FromNS, s.ToNS = a.at.UnixNano(), now.UnixNano()
	for _, key := range slices.SortedFunc(maps.Keys(a.waits), func(x, y [2]string) int { return strings.Compare(x[0]+x[1], y[0]+y[1]) }) {
		s.Waits = append(s.Waits, *a.waits[key])
	}
	if a.schema == "" {
		return nil
	}
	return a.delta(ctx, s, after)
}

// grown is what a statement's counters grew by.
type grown struct {
	id   string
	call Call
}

// delta enters what the counters grew by, and asks for the texts of the largest.
func (a *postgresAsker) delta(ctx context.Context, s *Server, after map[string]executed) error {
	var all []grown
	for _, id := range slices.Sorted(maps.Keys(after)) {
		e, b := after[id], a.statements[id]
		if _, ok := a.statements[id]; !ok && a.cut {
			continue // it may have been among those that were not asked for
		}
		if e.calls < b.calls || e.total < b.total {
			s.Reset, b = true, executed{}
		}
		if e.calls <= b.calls {
			continue
		}
		// The longest call is since the statistics began: it bounds the window's, and
		// if it grew, it is one of them.
		all = append(all, grown{id, Call{
			Count: e.calls - b.calls, NS: fromFloat(e.total-b.total, 1e6),
			MaxNS: fromFloat(e.mx, 1e6), Exact: e.mx > b.mx,
		}})
	}
	slices.SortStableFunc(all, func(x, y grown) int { return int(min(max(y.call.NS-x.call.NS, -1), 1)) })
	texts, err := a.texts(ctx, s, all)
	if err != nil {
		return err
	}
	for _, g := range all {
		text, known := texts[g.id]
		if ours(text) {
			continue
		}
		s.Count, s.NS = clamp(s.Count+g.call.Count), clamp(s.NS+g.call.NS)
		s.BoundNS = max(s.BoundNS, g.call.MaxNS)
		if !known {
			s.CallsCut = true
			continue
		}
		if g.call.Name = statement(text); g.id == "" {
			g.call.Name = "statements of other users"
		}
		s.Calls = append(s.Calls, g.call)
	}
	if s.Reset {
		s.BoundNS = 0
	}
	return nil
}

// ours reports whether a statement is one of those around our own questions.
func ours(text string) bool {
	return strings.Contains(text, mark) || text == readOnly || strings.HasPrefix(text, "SET LOCAL statement_timeout")
}

// texts asks for the texts of the statements that took the most time or have the longest calls.
func (a *postgresAsker) texts(ctx context.Context, s *Server, all []grown) (map[string]string, error) {
	picked := slices.Clone(all[:min(len(all), maxTexts)])
	if rest := all[len(picked):]; len(rest) > 0 {
		picked[len(picked)-1] = slices.MaxFunc(rest, func(x, y grown) int { return int(min(max(x.call.MaxNS-y.call.MaxNS, -1), 1)) })
	}
	out := map[string]string{}
	var ids []string
	for _, g := range picked {
		if g.id == "" {
			out[""] = "" // its text is hidden too
			continue
		}
		ids = append(ids, g.id)
	}
	if len(ids) == 0 {
		return out, nil
	}
	rows, err := a.again(ctx, s, fmt.Sprintf(`SELECT %s queryid::text, left(max(query), 4000) FROM %s.pg_stat_statements WHERE queryid IN (%s) GROUP BY 1`,
		mark, a.schema, strings.Join(ids, ",")))
	if err != nil {
		return nil, err
	}
	for _, r := range rows {
		if len(r) == 2 {
			out[r[0]] = r[1]
		}
	}
	return out, nil
}

// names are those in a message.
var names = regexp.MustCompile(`"[^"]*"`)

// postgresWhy says what a refusal of postgres means, and what to do about it; "" if
// it is none. Codes: https://www.postgresql.org/docs/current/errcodes-appendix.html
func postgresWhy(err error) (text, command string) {
	var refused *pgconn.PgError
	if !errors.As(err, &refused) {
		var long *pgproto3.ExceededMaxBodyLenErr
		text := err.Error()
		if errors.As(err, &long) || strings.Contains(text, "message type") || strings.Contains(text, "message length") || strings.Contains(text, "unexpected message") {
			return errNotPostgres.Error(), ""
		}
		return "", ""
	}
	message := short(refused.Message, 150)
	switch refused.Code {
	case "28P01":
		return "it refuses the login", "PGPASSWORD=PASSWORD whylate ... --postgres postgres://USER@HOST:PORT/DATABASE"
	case "28000": // perhaps for another reason than the password; without the user's name
		return "it refuses the login: " + names.ReplaceAllString(message, "..."), "PGPASSWORD=PASSWORD whylate ... --postgres postgres://USER@HOST:PORT/DATABASE"
	case "42501":
		return "the user may not ask: " + message, "psql -c 'GRANT pg_monitor TO NAME'"
	case "55000":
		return "the extension is installed, but its library is not loaded: " + message, "psql -c \"ALTER SYSTEM SET shared_preload_libraries = 'pg_stat_statements'\" and restart postgres"
	case "42703", "42883":
		return "the extension is older than postgres: " + message, "psql -c 'ALTER EXTENSION pg_stat_statements UPDATE'"
	case "57P03":
		return "it is starting or stopping: " + message, ""
	case "57014":
		return fmt.Sprintf("no answer within %s", askTimeout), ""
	case "53300":
		return "it has no connection left: " + message, ""
	}
	return "it answers: " + message, ""
}
