"""Dependency trees and constituents that systems predict, and their scores."""
