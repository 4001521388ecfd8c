import * as fc from 'fast-check';

// For `npm run mutants`: the first counterexample is enough, and the search for the smallest one takes minutes.
fc.configureGlobal({ endOnFailure: true });
