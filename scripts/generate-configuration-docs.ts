import { writeFileSync } from 'node:fs';
import type { Setting } from '../operator/settings/table/setting.ts';
import { settings } from '../operator/settings/table/table.ts';
import { DESTINATIONS } from '../operator/destinations/registry.ts';

export const CONFIGURATION_PAGE = new URL('../docs/reference/configuration.md', import.meta.url);

const INTRODUCTION = `# Configuration

<!-- Generated from operator/settings/table/ and operator/destinations/ by \`npm run generate:docs\`. -->

*For whoever sets meterfeed up.* Every setting with its default and the field of a custom resource that also gives it.
\`operator/settings/table/\` names the test of each.

## Where a value comes from

A TenantOverride wins over the MeteringPolicy (for destinations the BillingDestination). Both win over the environment and
the environment wins over the default. Custom resources take effect without a restart. An invalid custom resource keeps its last good value;
its condition \`Stalled\` has the reason. A reference to a Secret names a key in the operator's namespace. It cannot name
the Secret that configures the operator itself ([SECURITY.md](../../SECURITY.md)).

The operator reads the environment once at start. It reports all problems together as
\`NAME: what is wrong: "value"; how to fix it\` and does not start with any. An empty variable counts as not set.

## How values are written

- **Durations**: as in Go and with \`d\` for days, such as \`1h30m\` or \`7d\`.
- **Booleans**: \`true\` or \`false\`, \`1\` or \`0\`, \`yes\` or \`no\`.
- **Lists**: separated by commas. \`none\` is the empty list.
- **Credentials**: each value of a list works, for rotation. The operator never shows them.
- **URLs**: http or https. The operator accepts private addresses and refuses link-local ones and those of cloud metadata.

## Every setting

A name that begins with \`spec.\` is a field of the MeteringPolicy and has no variable.
`;

/** Returns the text of docs/reference/configuration.md. */
export function configurationPage(): string {
  const rows = settings(DESTINATIONS).map(([name, setting]) => row(name, setting));
  return [
    INTRODUCTION,
    '| Variable or field | Meaning | Default | Accepts | Custom resource field |',
    '|---|---|---|---|---|',
    ...rows,
    '',
  ].join('\n');
}

function row(name: string, variable: Setting): string {
  const names = [name, ...(variable.aliases ?? [])].map(code).join(' or ');
  const fields = (variable.fields ?? []).map(code).join(', ') || '–';
  const deprecated =
    variable.deprecated === undefined ? '' : `Deprecated: ${variable.deprecated}. `;
  const cells = [
    names,
    deprecated + variable.meaning,
    defaultText(variable),
    variable.parser.accepts,
    fields,
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
