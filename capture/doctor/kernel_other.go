//go:build !linux

package doctor

// thisKernel is not asked: Examine refuses.
var thisKernel kernel
