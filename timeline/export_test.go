package timeline

// PartsUntil returns the parts of a source that goes on behind a section of so many bytes.
func PartsUntil(src Source, end int64) *Parts { return &Parts{src: src, end: end, across: true} }

// PartsEvery returns the parts of a source, n of them of about so many bytes each.
func PartsEvery(src Source, length, n int64) *Parts {
	return &Parts{src: src, end: length * n, across: true, length: length, cut: length, last: length * (n - 1)}
}
