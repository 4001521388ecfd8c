import type { Environment } from './load-environment.ts';

/** Prefixes that nobody else uses in this process's environment. */
const OWN_PREFIX = /^(BILLING_[ABC]|STRIPE|METRONOME|LAGO)_/;
/** Kubernetes puts these into every container for each Service of its namespace. */
const SERVICE_LINK = /_(SERVICE_HOST|SERVICE_PORT(_.+)?|PORT(_\d+_(TCP|UDP|SCTP)(_.+)?)?)$/;

const SHORT_NAME = 8;

/** Warnings about variables that are not ours but look as if they should be; values are never shown. */
export function typoWarnings(environment: Environment, known: readonly string[]): string[] {
  const names = new Set(known);
  const warnings: string[] = [];
  for (const [name, text] of Object.entries(environment)) {
    if (text === undefined || names.has(name) || SERVICE_LINK.test(name)) continue;
    const nearest = nearestName(name, known);
    if (nearest !== undefined) {
      warnings.push(`${name}: unknown variable, without effect; did you mean ${nearest}?`);
      continue;
    }
    if (OWN_PREFIX.test(name)) warnings.push(`${name}: unknown variable, without effect`);
  }
  return warnings;
}

function nearestName(name: string, known: readonly string[]): string | undefined {
  const most = name.length < SHORT_NAME ? 1 : 2;
  let best: { readonly name: string; readonly distance: number } | undefined;
  for (const candidate of known) {
    if (Math.abs(candidate.length - name.length) > most) continue;
    const distance = editDistance(name, candidate);
    if (distance <= most && (best === undefined || distance < best.distance)) {
      best = { name: candidate, distance };
    }
  }
  return best?.name;
}

/** Insertions, deletions and replacements that turn one text into the other (Levenshtein). */
function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const replaced = (row[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1);
      next.push(Math.min(replaced, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1));
    }
    row = next;
  }
  return row.at(-1) ?? 0;
}
