import { writeFileSync } from 'node:fs';
import type { Setting } from '../operator/settings/table/setting.ts';
import { settings } from '../operator/settings/table/table.ts';
import { DESTINATIONS } from '../operator/destinations/registry.ts';

export const CONFIGURATION_PAGE = new URL('../docs/reference/configuration.md', import.meta.url);

const INTRODUCTION = `# Configuration

<!-- Generated from operator/settings/table/ and operator/destinations/ by \`npm run generate:docs\`. -->

*For whoever sets meterfeed up.* Every setting, where it can be given, and the test that shows its effect.

## Where a value comes from

A value comes from the first of these that gives it: TenantOverride, MeteringPolicy (or, for
destinations, BillingDestination), environment, default. Custom resources take effect without a
restart, and a removed one gives its fields back. Secrets are referred to by name and key, in the
operator's own namespace only, and none that the operator itself is configured from ([SECURITY.md](../../SECURITY.md)).

The environment is read once at start. All problems are reported at once, each as
\`NAME: what is wrong: "value"; how to mend it\`, and the operator does not start with any. An empty
variable counts as not set. Credentials are never shown. A custom resource that is invalid keeps its last
good value and says why in its condition \`Stalled\`.

## How values are written

- **Durations** are written as in Go, and with \`d\` for days: \`90s\`, \`1h30m\`, \`7d\`.
- **Booleans** are \`true\`, \`false\`, \`1\`, \`0\`, \`yes\` or \`no\`.
- **Lists** are separated by commas; \`none\` is the empty list, which also switches off a default.
- **Credentials** that take several values accept each of them, so that they can be rotated.
- **Addresses** may be private or loopback ones; link-local and cloud metadata addresses are refused.

## Every setting

A setting that is named after a field has no variable: custom resources alone give it.
`;

/** The text of docs/reference/configuration.md. */
export function configurationPage(): string {
  const rows = settings(DESTINATIONS).map(([name, setting]) => row(name, setting));
  return [
    INTRODUCTION,
    '| Variable, or field | Meaning | Default | Accepts | Custom resource field | Proven by |',
    '|---|---|---|---|---|---|',
    ...rows,
    '',
  ].join('\n');
}

function row(name: string, variable: Setting): string {
  const names = [name, ...(variable.aliases ?? [])].map(code).join(' or ');
  const fields = (variable.fields ?? []).map(code).join(', ') || 'environment only';
  const deprecated =
    variable.deprecated === undefined ? '' : `Deprecated: ${variable.deprecated}. `;
  const cells = [
    names,
    deprecated + variable.meaning,
    defaultText(variable),
    variable.parser.accepts,
    fields,
    code(variable.test),
  ];
  return `| ${cells.join(' | ')} |`;
}

function defaultText(variable: Setting): string {
  if (variable.otherwise !== undefined) return variable.otherwise;
  return variable.default === undefined ? 'none' : code(variable.default);
}

function code(text: string): string {
  return `\`${text}\``;
}

if (import.meta.main) {
  writeFileSync(CONFIGURATION_PAGE, configurationPage());
}
