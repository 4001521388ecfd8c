import type { Command } from './command.ts';
import { costs } from './costs.ts';
import { destinations } from './destinations.ts';
import { explain } from './explain.ts';
import { gaps } from './gaps.ts';
import { replay } from './replay.ts';
import { tenants } from './tenants.ts';
import { usage } from './usage.ts';
import { windows } from './windows.ts';

/** Every command, in the order of the help. */
export const COMMANDS: readonly Command[] = [
  usage,
  costs,
  tenants,
  windows,
  destinations,
  explain,
  gaps,
  replay,
];
