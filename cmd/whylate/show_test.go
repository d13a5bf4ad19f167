package main

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

func TestShowOpensThePageOfARecording(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the browser of this test is a shell script")
	}
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	opened := filepath.Join(dir, "opened")
	browser := filepath.Join(dir, "browser")
	if err := os.WriteFile(browser, []byte("#!/bin/sh\ncp \"$2\" "+opened+".part && mv "+opened+".part "+opened+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("BROWSER", browser+" --new-window")
	code, stdout, stderr := whylate(t, "show", healthyTrace)
	if code != exitOK || stderr != "" {
		t.Fatalf("exit %d, %q, %q", code, stdout, stderr)
	}
	page, err := os.ReadFile(strings.TrimSpace(stdout))
	if err != nil || !strings.Contains(string(page), "<!doctype html>") {
		t.Fatalf("%v: %.100q", err, page)
	}
	for began := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		got, err := os.ReadFile(opened)
		if err == nil && string(got) == string(page) {
			break
		}
		if time.Since(began) > time.Minute {
			t.Fatalf("the browser has not opened the page: %v, %d bytes of %d", err, len(got), len(page))
		}
	}
}

func TestShowWithoutABrowserSaysWhatToDo(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	t.Setenv("BROWSER", filepath.Join(t.TempDir(), "none"))
	code, stdout, stderr := whylate(t, "show", healthyTrace)
	if code != exitOK || !strings.HasSuffix(stdout, ".html\n") || !strings.Contains(stderr, ": there is no program /") || !strings.Contains(stderr, "\nwhylate show "+healthyTrace+" --output FILE.html\n") {
		t.Errorf("exit %d, %q, %q", code, stdout, stderr)
	}
	if st, err := os.Stat(strings.TrimSpace(stdout)); err != nil || st.Size() < 1000 {
		t.Errorf("there is no page: %v", err)
	}
	file := filepath.Join(t.TempDir(), "page.html")
	if code, stdout, stderr := whylate(t, "show", healthyTrace, "-o", file); code != exitOK || stdout != "" || stderr != "" {
		t.Errorf("exit %d, %q, %q", code, stdout, stderr)
	}
	if text, err := os.ReadFile(file); err != nil || !strings.HasSuffix(string(text), "</html>\n") {
		t.Errorf("%v: %.100q", err, text)
	}
	if code, stdout, _ := whylate(t, "show", healthyTrace, "-o", "-"); code != exitOK || !strings.HasPrefix(stdout, "<!doctype html>") {
		t.Errorf("exit %d, %.100q", code, stdout)
	}
	for _, args := range [][]string{{"show", "http://127.0.0.1:1"}, {"show", healthyTrace, "--slo", "-1s"}, {"show"}, {"show", healthyTrace, "--request", "main"}} {
		if code, _, stderr := whylate(t, args...); code != exitUsage || stderr == "" {
			t.Errorf("%v: exit %d, %q", args, code, stderr)
		}
	}
}

func TestDiagnosePrintsAPage(t *testing.T) {
	code, stdout, stderr := whylate(t, "diagnose", healthyTrace, "-o", "html")
	if code != exitOK || stderr != "" || !strings.HasPrefix(stdout, "<!doctype html>") || !strings.Contains(stdout, `"slowest":[{"id":"r`) {
		t.Errorf("exit %d, %.200q, %q", code, stdout, stderr)
	}
	if code, _, stderr := whylate(t, "doctor", "-o", "html"); code != exitUsage || !strings.Contains(stderr, "text or json") {
		t.Errorf("exit %d, %q", code, stderr)
	}
}
