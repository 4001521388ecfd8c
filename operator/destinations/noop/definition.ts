import type { DestinationDefinition } from '../definition.ts';
import { Noop } from './noop.ts';

/** Discards every event; for trying things out. */
export const noop: DestinationDefinition = {
  type: 'noop',
  spellings: ['noop'],
  prefixes: [],
  variables: {},
  inherits: [],
  fromEnvironment: () => ({ kind: 'options', options: {} }),
  create: (name, _, context) => new Noop(name, context),
};
