package timeline

// PartsUntil returns the parts of a source that goes on behind a section of so many bytes.
func PartsUntil(src Source, end int64) *Parts { return &Parts{src: src, end: end, across: true} }
