import { COMMON } from './arguments.ts';
import type { Command, Option } from './commands/command.ts';
import { COMMANDS } from './commands/commands.ts';

/** The text of `kubectl meterfeed` without a command. */
export function overview(): string {
  const names = [
    ...COMMANDS.map(({ name, summary }) => [name, summary] as const),
    ['completion', 'the script for shell completion'] as const,
    ['version', 'the version of this plugin'] as const,
  ];
  return [
    'Usage, tenants and delivery of meterfeed, read with your own permissions.',
    '',
    'Usage: kubectl meterfeed COMMAND [options]',
    '',
    ...names.map(([name, summary]) => `  ${name.padEnd(14)}${summary}`),
    '',
    'kubectl meterfeed COMMAND --help lists the options of a command.',
    '',
  ].join('\n');
}

/** The help of one command. */
export function helpOf({ name, summary, positionals, options }: Command): string {
  const line = [
    'Usage: kubectl meterfeed',
    name,
    ...positionals.map((each) => each.name),
    '[options]',
  ];
  return [
    `${summary[0]?.toUpperCase()}${summary.slice(1)}.`,
    '',
    line.join(' '),
    '',
    ...lines(options),
    ...(Object.keys(options).length === 0 ? [] : ['']),
    ...lines(COMMON),
    '',
  ].join('\n');
}

function lines(options: Readonly<Record<string, Option>>): readonly string[] {
  return Object.entries(options).flatMap(([name, { short, value, meaning }]) => {
    const given = `  ${short === undefined ? '    ' : `-${short}, `}--${name}${value === undefined ? '' : ` ${value}`}`;
    const indent = 28;
    const row = `${given.padEnd(indent)}${given.length >= indent ? ' ' : ''}${meaning}`;
    return row.length <= 80 ? [row] : [given, `${' '.repeat(10)}${meaning}`];
  });
}
