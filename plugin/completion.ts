import { COMMON } from './arguments.ts';
import type { Command, Completion } from './commands/command.ts';
import { COMMANDS } from './commands/commands.ts';
import { type Api, fieldsOf } from './connection.ts';
import { FORMATS } from './output/print.ts';

/**
 * The directive to offer the listed words and no files (`ShellCompDirectiveNoFileComp` of cobra, as
 * kubectl expects it from plugins).
 */
const NO_FILES = ':4';
const FILES = ':0';

/** The script that kubectl runs for completion, as `kubectl_complete-meterfeed` on the PATH. */
export const COMPLETION_SCRIPT = `#!/bin/sh
# Completes "kubectl meterfeed" in every shell that completes kubectl. Install it with:
#   kubectl meterfeed completion > /usr/local/bin/kubectl_complete-meterfeed
#   chmod +x /usr/local/bin/kubectl_complete-meterfeed
exec kubectl meterfeed __complete "$@"
`;

/** The words that may complete the last of `args`, and then the directive for kubectl. */
export async function completions(
  args: readonly string[],
  apiOf: (command: Command, args: readonly string[]) => Api | undefined,
): Promise<readonly string[]> {
  const typed = args.at(-1) ?? '';
  const before = args.slice(0, -1);
  const [name] = before;
  if (name === undefined)
    return matching([...COMMANDS.map((each) => each.name), 'completion', 'version'], typed);
  const command = COMMANDS.find((each) => each.name === name);
  if (command === undefined) return [NO_FILES];
  const options = { ...command.options, ...COMMON };
  const last = before.at(-1)?.replace(/^--?/, '') ?? '';
  const open = before.at(-1)?.startsWith('-') === true ? last : '';
  const option = Object.entries(options).find(
    ([long, { short }]) => open === long || open === short,
  );
  if (option !== undefined && option[1].type === 'string') {
    const [long, { complete }] = option;
    if (long === 'output') return matching(FORMATS, typed);
    if (['kubeconfig', 'token-file'].includes(long)) return [FILES];
    return matching(await values(complete, apiOf(command, before.slice(1, -1))), typed);
  }
  if (typed.startsWith('-'))
    return matching(
      Object.keys(options).map((each) => `--${each}`),
      typed,
    );
  const api = apiOf(command, before.slice(1));
  return matching(await values(command.positionals[0]?.complete, api), typed);
}

function matching(words: readonly string[], typed: string): readonly string[] {
  return [...words.filter((word) => word.startsWith(typed)), NO_FILES];
}

/** The values to complete with; none when the API cannot be read, because a shell waits. */
async function values(
  wanted: Completion | undefined,
  api: Api | undefined,
): Promise<readonly string[]> {
  if (wanted === undefined || api === undefined) return [];
  const answer = await api.get(wanted.path);
  return answer.kind === 'ok' ? fieldsOf(answer.value, wanted.list, wanted.field) : [];
}
