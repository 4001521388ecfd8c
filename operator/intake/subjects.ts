import type { SubjectRule } from '../model/cloud-event-rule.ts';
import { rememberLast } from '../model/remember-last.ts';

/** Subjects whose tenant is remembered. */
const MOST_REMEMBERED = 10_000;

/**
 * Returns the function from a subject to its tenant (docs/how-to/ai-gateways.md#tenants):
 *
 * 1. The rule with exactly this subject.
 * 2. The first rule with `*` that matches it.
 * 3. Otherwise the subject itself is the tenant.
 */
export function tenantsBySubject(rules: readonly SubjectRule[]): (subject: string) => string {
  const isPattern = ({ subject }: SubjectRule): boolean => subject.includes('*');
  const exact = new Map(rules.map(({ subject, tenant }) => [subject, tenant]));
  const patterns = rules
    .filter(isPattern)
    .map(({ subject, tenant }) => ({ parts: subject.split('*'), tenant }));
  return rememberLast(
    (subject) =>
      exact.get(subject) ??
      patterns.find(({ parts }) => matches(parts, subject))?.tenant ??
      subject,
    MOST_REMEMBERED,
  );
}

/** Whether a text has these parts in order, with any characters between them. */
function matches(parts: readonly string[], text: string): boolean {
  const first = parts[0] ?? '';
  const last = parts.at(-1) ?? '';
  if (!text.startsWith(first) || !text.endsWith(last)) return false;
  let position = first.length;
  for (const part of parts.slice(1, -1)) {
    const at = text.indexOf(part, position);
    if (at === -1) return false;
    position = at + part.length;
  }
  return position <= text.length - last.length;
}
