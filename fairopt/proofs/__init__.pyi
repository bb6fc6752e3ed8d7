from fairopt.proofs.verify import Verification as Verification
