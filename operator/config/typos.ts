import { closestMatch } from 'leven';
import type { Environment } from './load-environment.ts';

/** Kubernetes puts these into every container for each Service of its namespace. */
const SERVICE_LINK = /_(SERVICE_HOST|SERVICE_PORT(_.+)?|PORT(_\d+_(TCP|UDP|SCTP)(_.+)?)?)$/;

const SHORT_NAME = 8;

/**
 * Warnings about variables that are not ours but look as if they should be; values are never shown.
 * `prefixes` are those that nobody else uses in this process's environment.
 */
export function typoWarnings(
  environment: Environment,
  known: readonly string[],
  prefixes: readonly string[],
): string[] {
  const names = new Set(known);
  const warnings: string[] = [];
  for (const [name, text] of Object.entries(environment)) {
    if (text === undefined || names.has(name) || SERVICE_LINK.test(name)) continue;
    const maxDistance = name.length < SHORT_NAME ? 1 : 2;
    const nearest = closestMatch(name, known, { maxDistance });
    if (nearest !== undefined) {
      warnings.push(`${name}: unknown variable, without effect; did you mean ${nearest}?`);
      continue;
    }
    if (prefixes.some((prefix) => name.startsWith(prefix)))
      warnings.push(`${name}: unknown variable, without effect`);
  }
  return warnings;
}
