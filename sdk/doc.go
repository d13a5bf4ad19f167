// Package sdk is the root of the module with whylate's remedies: small libraries,
// one per directory, for services whose cause of lateness whylate has named.
//
// This package has no code. What stands below it keeps three promises: it imports
// the standard library only, it starts nothing and changes no setting when it is
// imported, and it asks for no newer Go than 1.22 (newer features stand behind build
// tags), so that depending on it does not change the GODEBUG defaults of a program.
package sdk
