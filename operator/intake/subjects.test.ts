import { expect, test } from 'vitest';
import { tenantsBySubject } from './subjects.ts';

const RULES = [
  { subject: 'team-*', tenant: 'globex' },
  { subject: 'team-a', tenant: 'acme' },
  { subject: '*@example.*', tenant: 'example' },
  { subject: 'key-*-prod', tenant: 'initech' },
];

test.each([
  ['team-a', 'acme'],
  ['team-b', 'globex'],
  ['team-', 'globex'],
  ['Team-b', 'Team-b'],
  ['ann@example.org', 'example'],
  ['key-1-prod', 'initech'],
  // The two parts must not overlap.
  ['key-prod', 'key-prod'],
  ['unknown', 'unknown'],
])('the usage of %s goes to %s', (subject, tenant) => {
  expect(tenantsBySubject(RULES)(subject)).toBe(tenant);
});

test('without a default a stranger is a tenant of its own, with one it is that of the default', () => {
  const withDefault = tenantsBySubject([...RULES, { subject: '*', tenant: 'others' }]);
  expect(withDefault('unknown')).toBe('others');
  expect(withDefault('team-a')).toBe('acme');
});

test('a hostile subject takes no time', () => {
  const rules = [{ subject: `${'*a'.repeat(100)}*b`, tenant: 'acme' }];
  expect(tenantsBySubject(rules)('a'.repeat(1024))).toBe('a'.repeat(1024));
});
