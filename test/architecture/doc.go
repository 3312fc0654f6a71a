// Package architecture checks the rules about packages that a linter cannot know: who may import whom, what a program may
// link, and where state and the environment may be touched. Its own test applies them to this repository.
package architecture
