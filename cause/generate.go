package cause

//go:generate go run ../internal/genall
