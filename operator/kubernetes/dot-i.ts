import dotI from '@dot-i/k8s-operator';

export {
  type ResourceEvent,
  ResourceEventType,
  type ResourceMeta,
  ResourceMetaImpl,
} from '@dot-i/k8s-operator';

/**
 * The base class of `@dot-i/k8s-operator`. The package is CommonJS, and loaders differ in what its
 * default import is: Node and bundlers give the module, others the module's `default`.
 */
export const Operator = 'default' in dotI ? dotI.default : dotI;
